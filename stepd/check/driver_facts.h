// SPDX-License-Identifier: Apache-2.0
// What only the NVIDIA driver's library (NVML) tells. Plain data: read_driver() fills it, the checks judge it. A value
// that the board or the driver does not have is absent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nccltune::check {

struct RemappedRows {  // of memory, since manufacture; pending: at the next reset
  unsigned correctable = 0, uncorrectable = 0;
  bool pending = false, failed = false;
};

struct Fabric {
  int state = 0;   // 0 not supported, 1 not started, 2 in progress, 3 completed
  int status = 0;  // an nvmlReturn_t: meaningful when completed
  unsigned clique = 0;
  std::string cluster;  // UUID of the NVLink domain, in hexadecimal; all zero where it is one node
  uint32_t health = 0;  // bits of NVML_GPU_FABRIC_HEALTH_MASK_*
};

struct GpuHealth {
  std::string bdf;   // "0000:3b:00.0"
  std::string name;  // "NVIDIA H200"
  std::string vbios;
  std::optional<bool> persistence, ecc, mig;
  std::optional<uint64_t> volatile_uncorrectable;  // ECC errors since the driver was loaded
  std::optional<RemappedRows> rows;
  std::optional<uint64_t> throttle;  // bits of NVML_CLOCKS_THROTTLE_REASON_*, now
  std::optional<unsigned> power_cap_mw, default_power_cap_mw;
  std::optional<unsigned> pcie_generation, pcie_width, most_generation, most_width;
  std::vector<std::optional<bool>> links;  // NVLink 0, 1, ...: active; absent: the board has no such link
  std::vector<std::string> link_ends;      // of the active ones: the BDF at the other end, "switch", or "" (not told)
  std::optional<Fabric> fabric;

  int active_links() const;
  int all_links() const;
};

struct DriverFacts {
  std::string error;  // why there is none of it; "" when it was read
  std::string driver_version, library_version;
  std::vector<GpuHealth> gpus;  // by BDF
  struct Pair {
    size_t a = 0, b = 0;                  // indices of gpus, a < b
    int read = 0, write = 0, nvlink = 0;  // nvmlGpuP2PStatus_t: 0 OK, 1 CNS, 2 GNS, 3 TNS, 4 DR, 5 NS, 6 unknown
    int links = 0;                        // NVLinks that join the two, directly or through switches
  };
  std::vector<Pair> pairs;
};

// The symbols of a library by name; nullptr where it lacks one (an older driver).
using Symbols = std::function<void*(const char*)>;

// NVLinks that join two GPUs, as nvidia-smi's NV# counts: those that end at each other, else those that both have to
// switches, which join all. Where the other ends are not told (a guest that does not see its switches) the active ones
// of the lesser GPU, if the driver says that the two reach each other by NVLink. Pure.
int joining_links(const GpuHealth& a, const GpuHealth& b, bool reach_by_nvlink);

// Asks the library. Never fails: error tells why nothing is known.
DriverFacts read_driver(const Symbols& nvml);

// Opens libnvidia-ml.so.1 and asks it. The library is looked for where the loader does, and nowhere else.
DriverFacts read_driver();

// "OK", "chipset", "GPU", "topology", "disabled", "not supported", "unknown".
const char* p2p_text(int status);

}  // namespace nccltune::check
