// SPDX-License-Identifier: Apache-2.0
#include "bench/choose_worker.h"

#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#ifndef NCCLTUNE_LIBEXECDIR
#define NCCLTUNE_LIBEXECDIR "/usr/local/libexec/nccl-tune"
#endif

namespace nccltune::bench {
namespace {

namespace fs = std::filesystem;

std::string find_program(const std::string& name, const std::string& folder) {
  std::vector<fs::path> folders;
  if (!folder.empty()) {
    folders = {folder};
  } else {
    std::error_code ignored;
    const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
    // Beside the tool, as built; <prefix>/libexec, also of a tree that was moved.
    folders = {self.parent_path(), self.parent_path().parent_path() / "libexec/nccl-tune", NCCLTUNE_LIBEXECDIR};
  }
  for (const fs::path& at : folders)
    if (access((at / name).c_str(), X_OK) == 0) return at / name;
  return "";
}

// A GPU of the driver's that this task may use. CUDA itself is asked by the worker only.
bool sees_gpu() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && (*visible == '\0' || std::string(visible) == "-1" || std::string(visible) == "NoDevFiles"))
    return false;
  glob_t found{};
  bool any = glob("/dev/nvidia[0-9]*", 0, nullptr, &found) == 0;
  globfree(&found);
  any |= access("/dev/dxg", R_OK) == 0;  // WSL 2
  // A device node alone proves nothing: the driver must be there too.
  return any && (access("/proc/driver/nvidia/version", R_OK) == 0 || access("/dev/dxg", R_OK) == 0);
}

}  // namespace

Result<ChosenWorker> choose_worker(WorkerChoice choice, const std::string& folder) {
  const std::string nccl = find_program("nccl-tune-worker-nccl", folder),
                    host = find_program("nccl-tune-worker-host", folder);
  if (choice == WorkerChoice::nccl) {
    if (nccl.empty())
      return Error{"nccl-tune-worker-nccl", "not found beside nccl-tune or in libexec", "",
                   "build it where CUDA and NCCL are (make nccl-worker)"};
    return ChosenWorker{"nccl", nccl, ""};
  }
  if (choice == WorkerChoice::automatic && sees_gpu() && !nccl.empty()) return ChosenWorker{"nccl", nccl, ""};
  if (host.empty())
    return Error{"nccl-tune-worker-host", "not found beside nccl-tune or in libexec", "",
                 "build it where Gloo is (make host-worker)"};
  ChosenWorker chosen{"host", host, ""};
  const char* why = choice == WorkerChoice::host ? "as asked"
                    : sees_gpu()                 ? "no NCCL worker is installed"
                                                 : "no GPU is visible here";
  chosen.note = std::string(why) + ": host memory is measured; over TCP, so these figures say nothing about GPUs";
  return chosen;
}

}  // namespace nccltune::bench
