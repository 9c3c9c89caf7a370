// SPDX-License-Identifier: Apache-2.0
// Health of the GPUs as the driver's library and the kernel's log tell it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "check/finding.h"
#include "check/health.h"

namespace nccltune::check {

const DriverFacts* driver_facts(const Subject& subject, Report& report) {
  if (!subject.hardware) {
    report.skip("NVML", "not on a recorded machine");
    return nullptr;
  }
  if (subject.hardware->driver.error.empty()) return &subject.hardware->driver;
  if (!subject.node.gpus.empty()) report.skip("NVML", subject.hardware->driver.error);
  return nullptr;
}

namespace {

void library(const Subject& subject, Report& report) {
  if (subject.node.gpus.empty()) return;
  if (!subject.hardware) return report.skip("libnvidia-ml.so.1", "not on a recorded machine");
  const DriverFacts& facts = subject.hardware->driver;
  if (!facts.error.empty() && facts.error.find("mismatch") != std::string::npos)
    report.fail("libnvidia-ml.so.1", facts.error, "the library of driver " + subject.node.driver.version,
                "reboot, or unload and load the nvidia modules");
  else if (!facts.error.empty())
    report.skip("libnvidia-ml.so.1", facts.error);
  else
    report.ok("libnvidia-ml.so.1", "driver " + facts.driver_version + ", library " + facts.library_version);
}

void count(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  std::set<std::string> answering;
  for (const GpuHealth& gpu : facts->gpus) answering.insert(gpu.bdf);
  for (const Gpu& gpu : subject.node.gpus)
    if (gpu.minor && !answering.contains(gpu.bdf))
      report.fail(gpu.bdf, "does not answer the driver's library", "every GPU of the driver answers",
                  "nvidia-smi -i " + gpu.bdf + "; reset it or drain the node");
  if (report.empty()) report.ok("GPUs", std::to_string(answering.size()));
}

void ecc(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  for (const GpuHealth& gpu : facts->gpus) {
    if (gpu.ecc == false)
      report.warn(gpu.bdf, "ECC is off", "on: wrong bits in memory go unseen",
                  "nvidia-smi -i " + gpu.bdf + " -e 1, then reset");
    else if (gpu.volatile_uncorrectable.value_or(0) > 0)
      report.fail(gpu.bdf,
                  fmt::format("{} uncorrectable errors since the driver was loaded", *gpu.volatile_uncorrectable), "0",
                  "drain the node; nvidia-smi -i " + gpu.bdf + " --gpu-reset");
    else if (gpu.volatile_uncorrectable)
      report.ok(gpu.bdf, "no uncorrectable error");
  }
}

void rows(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  for (const GpuHealth& gpu : facts->gpus) {
    if (!gpu.rows) continue;
    const std::string seen = fmt::format("{} remapped after uncorrectable errors{}{}", gpu.rows->uncorrectable,
                                         gpu.rows->pending ? ", a remapping is pending" : "",
                                         gpu.rows->failed ? ", a remapping failed" : "");
    if (gpu.rows->failed)
      report.fail(gpu.bdf, seen, "no failure", "drain the node and ask for a replacement of the board");
    else if (gpu.rows->pending)
      report.fail(gpu.bdf, seen, "none pending", "drain the node; nvidia-smi -i " + gpu.bdf + " --gpu-reset");
    else
      report.ok(gpu.bdf, seen);
  }
}

// NVML_CLOCKS_THROTTLE_REASON_*: those that name a fault, not a plain limit of power or an idle board.
constexpr uint64_t kHardwareSlowdown = 0x8, kHardwareThermal = 0x40, kPowerBrake = 0x80;

std::string throttle_text(uint64_t reasons) {
  std::vector<std::string> names;
  if (reasons & kHardwareSlowdown) names.emplace_back("hardware slowdown");
  if (reasons & kHardwareThermal) names.emplace_back("hardware thermal slowdown");
  if (reasons & kPowerBrake) names.emplace_back("power brake");
  return join(names, ", ");
}

void throttle(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  for (const GpuHealth& gpu : facts->gpus) {
    if (!gpu.throttle) continue;
    const std::string seen = throttle_text(*gpu.throttle);
    if (seen.empty())
      report.ok(gpu.bdf, "none by the hardware");
    else
      report.fail(gpu.bdf, seen, "none",
                  "look at cooling and power supplies: nvidia-smi -q -d PERFORMANCE -i " + gpu.bdf);
  }
}

void persistence(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  for (const GpuHealth& gpu : facts->gpus)
    if (gpu.persistence == false)
      report.warn(gpu.bdf, "off", "on: else the driver is set up anew at each job's start",
                  "systemctl enable --now nvidia-persistenced");
    else if (gpu.persistence)
      report.ok(gpu.bdf, "on");
}

void mig(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  for (const GpuHealth& gpu : facts->gpus)
    if (gpu.mig == true)
      report.warn(gpu.bdf, "on: NCCL has neither NVLink nor peer access between instances", "off for NCCL jobs",
                  "nvidia-smi -i " + gpu.bdf + " -mig 0");
    else if (gpu.mig)
      report.ok(gpu.bdf, "off");
}

void power_cap(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  for (const GpuHealth& gpu : facts->gpus) {
    if (!gpu.power_cap_mw || !gpu.default_power_cap_mw) continue;
    const std::string seen = fmt::format("{} W", *gpu.power_cap_mw / 1000);
    if (*gpu.power_cap_mw < *gpu.default_power_cap_mw)
      report.warn(gpu.bdf, seen, fmt::format("{} W, the board's default", *gpu.default_power_cap_mw / 1000),
                  fmt::format("nvidia-smi -i {} -pl {}", gpu.bdf, *gpu.default_power_cap_mw / 1000));
    else
      report.ok(gpu.bdf, seen);
  }
}

// Only the width is judged: an idle board lowers the generation by itself and raises it under load.
void pcie_link(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  for (const GpuHealth& gpu : facts->gpus) {
    if (!gpu.pcie_width || !gpu.most_width) continue;
    const std::string seen = fmt::format("generation {} of {}, x{}", gpu.pcie_generation.value_or(0),
                                         gpu.most_generation.value_or(0), *gpu.pcie_width);
    if (*gpu.pcie_width < *gpu.most_width)
      report.warn(gpu.bdf, seen, fmt::format("x{}", *gpu.most_width), "reseat the board: lspci -vvs " + gpu.bdf);
    else
      report.ok(gpu.bdf, seen);
  }
}

void same_vbios(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  std::map<std::string, std::map<std::string, std::vector<std::string>>> boards;  // name -> version -> GPUs
  for (const GpuHealth& gpu : facts->gpus)
    if (!gpu.vbios.empty()) boards[gpu.name][gpu.vbios].push_back(gpu.bdf);
  for (const auto& [board, versions] : boards) {
    std::vector<std::string> seen;
    for (const auto& [version, gpus] : versions) seen.push_back(version + " on " + join(gpus, " "));
    if (versions.size() == 1)
      report.ok(board, versions.begin()->first);
    else
      report.warn(board, join(seen, "; "), "one version", "ask the maker of the server for its firmware bundle");
  }
}

// Azure's node health check drains a node for these.
const std::set<int>& fatal_xids() {
  static const std::set<int> kCodes{48, 56, 57, 58, 62, 63, 64, 65, 68, 69, 73, 74, 79, 80, 81, 92, 119, 120};
  return kCodes;
}

void xid(const Subject& subject, Report& report) {
  if (subject.node.gpus.empty()) return;
  if (!subject.hardware) return report.skip("kernel log", "not on a recorded machine");
  const KernelLog& log = subject.hardware->log;
  if (!log.error.empty()) return report.skip("kernel log", log.error);
  std::map<std::string, std::map<int, int>> seen;  // GPU -> code -> how often
  for (const std::string& line : log.lines)
    if (auto one = xid_in(line)) ++seen[one->bdf][one->code];
  for (const auto& [bdf, codes] : seen) {
    std::vector<std::string> texts;
    bool fatal = false;
    for (const auto& [code, times] : codes) {
      texts.push_back(fmt::format("Xid {} ({} times)", code, times));
      fatal = fatal || fatal_xids().contains(code);
    }
    if (fatal)
      report.fail(bdf, join(texts, ", "), "none in two hours", "drain the node; dmesg | grep 'NVRM: Xid'");
    else
      report.warn(bdf, join(texts, ", "), "none in two hours", "often the program's own: dmesg | grep 'NVRM: Xid'");
  }
  if (seen.empty()) report.ok("kernel log", "no Xid in two hours");
}

void gdrcopy(const Subject& subject, Report& report) {
  if (subject.node.gpus.empty() || !subject.live()) return;
  report.ok("/dev/gdrdrv", subject.root.exists("/dev/gdrdrv") ? "there" : "not there; only small messages gain by it");
}

}  // namespace

const std::vector<Check>& gpu_health_checks() {
  static const std::vector<Check> kChecks{
      {"gpu.library", "gpu", "a library of another version than the driver stops every CUDA program",
       "NVML documentation, nvmlInit", library},
      {"gpu.count", "gpu", "a job that counts on the GPU fails at its first CUDA call", "Azure NHC check_gpu_count",
       count},
      {"gpu.ecc", "gpu", "an uncorrectable error ends the job that meets it", "Azure NHC check_gpu_ecc", ecc},
      {"gpu.remapped-rows", "gpu", "memory with a pending or failed remapping fails again", "Azure NHC check_gpu_ecc",
       rows},
      {"gpu.throttle", "gpu", "one slow GPU slows every rank of a collective", "Azure NHC check_gpu_clock_throttling",
       throttle},
      {"gpu.persistence", "gpu", "setting the driver up takes seconds at each start", "NVIDIA driver persistence",
       persistence},
      {"gpu.mig", "gpu", "instances of a GPU cannot reach each other", "NVIDIA MIG user guide", mig},
      {"gpu.power-cap", "gpu", "a capped GPU lags behind its peers", "nvidia-smi(1)", power_cap},
      {"gpu.pcie-width", "gpu", "a link of fewer lanes caps all traffic over PCIe", "Azure NHC, PCIe link checks",
       pcie_link},
      {"gpu.vbios", "gpu", "boards of one kind with different firmware behave differently", "Meta gcm check-nvidia-smi",
       same_vbios},
      {"gpu.xid", "gpu", "the driver reports faults of a GPU as Xids before programs see them",
       "Azure NHC azure_gpu_xid", xid},
      {"gpu.gdrcopy", "gpu", "GDRCopy lowers the latency of small messages", "NCCL documentation", gdrcopy},
  };
  return kChecks;
}

}  // namespace nccltune::check
