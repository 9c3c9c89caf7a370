// SPDX-License-Identifier: Apache-2.0
// CPUs and memory beside the GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "check/finding.h"
#include "node/distance.h"

namespace nccltune::check {

namespace {

// NCCL's proxy threads spin: with fewer CPUs they take turns with the application.
constexpr int kFewestCpus = 4;

void mask(const Subject& subject, Report& report) {
  if (subject.node.gpus.empty()) return;
  if (!subject.live()) {
    report.skip("CPU mask", "not on a recorded machine");
    return;
  }
  const auto& own = subject.mask;
  if (!own) return;
  for (const TaskPlan& task : subject.plan.tasks)
    for (const std::string& gpu : task.gpus) {
      const auto near = cpus_near(subject.node, gpu);
      if (!near) continue;
      const CpuSet both = *own & *near;
      const std::string seen = fmt::format("{} of the mask {}", both.count(), own->list());
      if (both.empty())
        report.fail(gpu, "none of the mask " + own->list() + " is beside the GPU", "CPUs of " + near->list(),
                    "srun --cpus-per-task=8 --gpu-bind=closest");
      else if (both.count() < kFewestCpus && near->count() >= kFewestCpus)
        report.warn(gpu, seen, fmt::format("{} or more of {}", kFewestCpus, near->list()), "sbatch --cpus-per-task=8");
      else
        report.ok(gpu, seen);
    }
}

void locality(const Subject& subject, Report& report) {
  for (const Gpu& gpu : subject.node.gpus) {
    const auto numa = numa_of(subject.node, gpu.bdf);
    if (numa)
      report.ok(gpu.bdf, fmt::format("NUMA node {}", *numa));
    else if (subject.node.numa.size() > 1)
      report.warn(gpu.bdf, "no NUMA node is told", "one of " + std::to_string(subject.node.numa.size()),
                  subject.node.hypervisor ? "NCCL_TOPO_FILE with the vendor's file for this machine, if there is one"
                                          : "look for a BIOS update");
  }
}

void balancing(const Subject& subject, Report& report) {
  auto text = subject.root.read_line("/proc/sys/kernel/numa_balancing");
  if (!text) return;
  if (*text == "0")
    report.ok("kernel.numa_balancing", *text);
  else
    report.warn("kernel.numa_balancing", *text, "0", "sysctl kernel.numa_balancing=0");
}

}  // namespace

const std::vector<Check>& numa_checks() {
  static const std::vector<Check> kChecks{
      {"numa.mask", "numa", "threads far from the GPU, or too few of them, make collectives slow and unsteady",
       "NVIDIA/nccl-tests#57, nccl#1017", mask},
      {"numa.locality", "numa", "without it neither NCCL nor a pin can tell what is near", "NVIDIA/nccl#1464, #1674",
       locality},
      {"numa.balancing", "numa", "the kernel unmaps pages to sample them, which stalls the threads that poll",
       "Linux admin-guide/sysctl/kernel", balancing},
  };
  return kChecks;
}

}  // namespace nccltune::check
