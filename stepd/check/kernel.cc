// SPDX-License-Identifier: Apache-2.0
// Settings of the kernel that cost latency.
#include <fmt/format.h>
#include <sys/timex.h>

#include <map>

#include "base/text.h"
#include "check/finding.h"

namespace nccltune::check {

namespace {

void governor(const Subject& subject, Report& report) {
  std::map<std::string, int> cpus;  // governor -> how many CPUs
  for (int cpu : subject.node.online_cpus.ids())
    if (auto text = subject.root.read_line(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", cpu)))
      ++cpus[*text];
  for (const auto& [name, count] : cpus) {
    const std::string object = fmt::format("{} CPUs", count);
    if (name == "performance")
      report.ok(object, name);
    else
      report.warn(object, name, "performance", "cpupower frequency-set -g performance");
  }
}

void huge_pages(const Subject& subject, Report& report) {
  auto text = subject.root.read_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!text) return;
  report.ok("transparent_hugepage", *text);
  bool efa = false;
  for (const RdmaDevice& device : subject.node.rdma) efa = efa || device.driver == "efa";
  auto pages = subject.root.read_line("/proc/sys/vm/nr_hugepages");
  if (efa && pages && *pages == "0")
    report.warn("vm.nr_hugepages", "0", "above 0, for the EFA provider's buffers", "sysctl vm.nr_hugepages=5128");
}

void clock_in_step(const Subject& subject, Report& report) {
  if (!subject.live()) return report.skip("clock", "not on a recorded machine");
  timex state{};  // modes 0: only read
  const int rc = adjtimex(&state);
  if (rc < 0) return report.skip("clock", "the kernel does not tell");
  const std::string seen = fmt::format("estimated error {} ms", state.esterror / 1000);
  if (rc == TIME_ERROR || (state.status & STA_UNSYNC))
    report.warn("clock", "not synchronized", "kept in step by chrony, ntpd or the host", "chronyc tracking");
  else
    report.ok("clock", "synchronized, " + seen);
}

}  // namespace

const std::vector<Check>& kernel_checks() {
  static const std::vector<Check> kChecks{
      {"kernel.governor", "kernel", "CPUs that clock down delay the threads that feed the NICs",
       "cpupower documentation", governor},
      {"kernel.huge-pages", "kernel", "EFA registers its buffers in huge pages", "AWS EFA documentation", huge_pages},
      {"kernel.clock", "kernel", "logs of several nodes cannot be laid side by side", "adjtimex(2)", clock_in_step},
  };
  return kChecks;
}

}  // namespace nccltune::check
