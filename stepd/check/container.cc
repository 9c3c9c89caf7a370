// SPDX-License-Identifier: Apache-2.0
// Shared memory, which containers make small.
#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/text.h"
#include "check/finding.h"

namespace nccltune::check {

namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kPerRank = 32 * kMiB;  // what NCCL's host buffers of a rank may take

void shared_memory(const Subject& subject, Report& report) {
  if (!subject.live()) {
    report.skip("/dev/shm", "not on a recorded machine");
    return;
  }
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) {
    report.fail("/dev/shm", "not there", "a tmpfs of 1 GiB or more", "mount -t tmpfs tmpfs /dev/shm");
    return;
  }
  const uint64_t size = static_cast<uint64_t>(info.f_blocks) * info.f_frsize,
                 free = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  const uint64_t ranks = std::max<uint64_t>(1, subject.node.gpus.size());
  const uint64_t wanted = std::max<uint64_t>(1024 * kMiB, ranks * kPerRank);
  const std::string seen = fmt::format("{} MiB, {} MiB free", size / kMiB, free / kMiB);
  if (size < wanted)
    report.fail("/dev/shm", seen, fmt::format("{} MiB or more", wanted / kMiB),
                "docker run --shm-size=1g --ulimit memlock=-1");
  else if (free < ranks * kPerRank)
    report.warn("/dev/shm", seen, fmt::format("{} MiB free", ranks * kPerRank / kMiB),
                "remove what dead jobs left: ls -l /dev/shm");
  else
    report.ok("/dev/shm", seen);
}

void left_behind(const Subject& subject, Report& report) {
  if (!subject.live()) {
    report.skip("/dev/shm/nccl-*", "not on a recorded machine");
    return;
  }
  int count = 0;
  for (const std::string& file : subject.root.list("/dev/shm")) {
    struct stat info {};
    if (file.starts_with("nccl-") && stat(("/dev/shm/" + file).c_str(), &info) == 0 && info.st_uid == geteuid())
      ++count;
  }
  if (count == 0)
    report.ok("/dev/shm/nccl-*", "none of this user");
  else
    report.warn("/dev/shm/nccl-*", fmt::format("{} files of this user", count),
                "none while no job of the user runs here",
                "fuser -v /dev/shm/nccl-*, then remove those that nobody holds");
}

}  // namespace

const std::vector<Check>& container_checks() {
  static const std::vector<Check> kChecks{
      {"container.shm", "container", "NCCL's shared-memory transport fails with 'No space left on device'",
       "NCCL documentation, sharing data", shared_memory},
      {"container.stale-shm", "container", "dead jobs' segments fill /dev/shm", "NCCL documentation, sharing data",
       left_behind},
  };
  return kChecks;
}

}  // namespace nccltune::check
