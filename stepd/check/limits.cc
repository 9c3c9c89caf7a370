// SPDX-License-Identifier: Apache-2.0
// Limits of the process, which tasks inherit from slurmd.
#include <fmt/format.h>
#include <sys/resource.h>

#include "check/finding.h"

namespace nccltune::check {

namespace {

std::string shown(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : std::to_string(value); }

bool on_recorded(const Subject& subject, Report& report, const char* object) {
  if (subject.live()) return false;
  report.skip(object, "not on a recorded machine");
  return true;
}

void memlock(const Subject& subject, Report& report) {
  if (on_recorded(subject, report, "RLIMIT_MEMLOCK")) return;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string seen = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} bytes", limit.rlim_cur);
  if (limit.rlim_cur == RLIM_INFINITY)
    report.ok("RLIMIT_MEMLOCK", seen);
  else if (subject.node.rdma.empty())
    report.ok("RLIMIT_MEMLOCK", seen + ", no RDMA device");
  else
    report.fail("RLIMIT_MEMLOCK", seen, "unlimited",
                "LimitMEMLOCK=infinity in slurmd.service, PropagateResourceLimitsExcept=MEMLOCK in slurm.conf");
}

void open_files(const Subject& subject, Report& report) {
  if (on_recorded(subject, report, "RLIMIT_NOFILE")) return;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t kWanted = 65536;
  const std::string seen = shown(limit.rlim_cur) + " (hard " + shown(limit.rlim_max) + ")";
  if (limit.rlim_cur >= kWanted)
    report.ok("RLIMIT_NOFILE", seen);
  else
    report.warn("RLIMIT_NOFILE", seen, "65536 or more",
                "LimitNOFILE=1048576 in slurmd.service; ulimit -n 65536 where the hard limit allows it");
}

}  // namespace

const std::vector<Check>& limits_checks() {
  static const std::vector<Check> kChecks{
      {"limits.memlock", "limits", "memory cannot be registered: 'Cannot allocate memory' from ibv_reg_mr",
       "NVIDIA/nccl-tests#206, nccl#562", memlock},
      {"limits.open-files", "limits", "each connection takes descriptors; large jobs run out of them",
       "NCCL documentation, troubleshooting", open_files},
  };
  return kChecks;
}

}  // namespace nccltune::check
