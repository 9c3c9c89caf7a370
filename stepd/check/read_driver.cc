// SPDX-License-Identifier: Apache-2.0
// NVML by dlopen: a node without the driver, and a build machine without its header, both run this program. The structs
// are NVML's ABI, kept by the driver across versions (a _vN suffix tells a changed one).
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "check/driver_facts.h"

namespace nccltune::check {

namespace {

using Device = void*;  // nvmlDevice_t

constexpr int kSuccess = 0;
constexpr int kDriverNotLoaded = 9;
constexpr int kLibraryMismatch = 18;
constexpr int kMaxLinks = 18;  // NVML_NVLINK_MAX_LINKS

struct PciInfo {  // nvmlPciInfo_t, since nvmlDeviceGetPciInfo_v3
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

struct FabricInfo {  // nvmlGpuFabricInfo_t
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};

struct FabricInfoV {  // nvmlGpuFabricInfo_v2_t
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};
constexpr unsigned kFabricV2 = sizeof(FabricInfoV) | (2u << 24);

// Calls a function of the library; kMissing where the driver is too old to have it.
constexpr int kMissing = -1;

class Library {
 public:
  explicit Library(const Symbols& symbols) : symbols_(symbols) {}

  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto function = reinterpret_cast<int (*)(Arguments...)>(symbols_(name));
    return function ? function(arguments...) : kMissing;
  }

  template <class T>
  std::optional<T> ask(const char* name, Device device) const {
    T value{};
    return call(name, device, &value) == kSuccess ? std::optional<T>(value) : std::nullopt;
  }

  std::string text(const char* name, Device device) const {
    char buffer[96] = "";
    return call(name, device, static_cast<char*>(buffer), static_cast<unsigned>(sizeof buffer)) == kSuccess ? buffer
                                                                                                            : "";
  }

  std::string error(int code) const {
    auto function = reinterpret_cast<const char* (*)(int)>(symbols_("nvmlErrorString"));
    return function ? function(code) : fmt::format("error {}", code);
  }

 private:
  const Symbols& symbols_;
};

std::optional<bool> flag(std::optional<unsigned> value) {
  return value ? std::optional<bool>(*value != 0) : std::nullopt;
}

std::optional<RemappedRows> rows_of(const Library& nvml, Device device) {
  RemappedRows rows;
  unsigned pending = 0, failed = 0;
  if (nvml.call("nvmlDeviceGetRemappedRows", device, &rows.correctable, &rows.uncorrectable, &pending, &failed) !=
      kSuccess)
    return std::nullopt;
  rows.pending = pending != 0;
  rows.failed = failed != 0;
  return rows;
}

std::string hexadecimal(const unsigned char (&bytes)[16]) {
  std::string out;
  for (unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

std::optional<Fabric> fabric_of(const Library& nvml, Device device) {
  FabricInfoV v{};
  v.version = kFabricV2;
  if (nvml.call("nvmlDeviceGetGpuFabricInfoV", device, &v) == kSuccess)
    return Fabric{v.state, v.status, v.clique, hexadecimal(v.cluster), v.health};
  FabricInfo info{};
  if (nvml.call("nvmlDeviceGetGpuFabricInfo", device, &info) == kSuccess)
    return Fabric{info.state, info.status, info.clique, hexadecimal(info.cluster), 0};
  return std::nullopt;
}

std::string bdf_of(const PciInfo& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

std::string link_end(const Library& nvml, Device device, unsigned link) {
  constexpr int kSwitch = 2;  // nvmlIntNvLinkDeviceType_t
  int type = -1;
  if (nvml.call("nvmlDeviceGetNvLinkRemoteDeviceType", device, link, &type) == kSuccess && type == kSwitch)
    return "switch";
  PciInfo pci{};
  // A guest's driver answers with zeros for what the guest does not have.
  if (nvml.call("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, &pci) != kSuccess || pci.device_id == 0) return "";
  return bdf_of(pci);
}

void read_links(const Library& nvml, Device device, GpuHealth& gpu) {
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    unsigned active = 0;
    const int rc = nvml.call("nvmlDeviceGetNvLinkState", device, link, &active);
    gpu.links.push_back(rc == kSuccess ? std::optional<bool>(active != 0) : std::nullopt);
    if (rc == kSuccess && active) gpu.link_ends.push_back(link_end(nvml, device, link));
  }
}

GpuHealth read_gpu(const Library& nvml, Device device) {
  GpuHealth gpu;
  PciInfo pci{};
  if (nvml.call("nvmlDeviceGetPciInfo_v3", device, &pci) == kSuccess) gpu.bdf = bdf_of(pci);
  gpu.name = nvml.text("nvmlDeviceGetName", device);
  gpu.vbios = nvml.text("nvmlDeviceGetVbiosVersion", device);
  gpu.persistence = flag(nvml.ask<unsigned>("nvmlDeviceGetPersistenceMode", device));
  unsigned now = 0, later = 0;
  if (nvml.call("nvmlDeviceGetEccMode", device, &now, &later) == kSuccess) gpu.ecc = now != 0;
  if (nvml.call("nvmlDeviceGetMigMode", device, &now, &later) == kSuccess) gpu.mig = now != 0;
  constexpr int kUncorrected = 1, kVolatile = 0;
  unsigned long long errors = 0;
  if (nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kVolatile, &errors) == kSuccess)
    gpu.volatile_uncorrectable = errors;
  gpu.rows = rows_of(nvml, device);
  gpu.throttle = nvml.ask<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device);
  gpu.power_cap_mw = nvml.ask<unsigned>("nvmlDeviceGetPowerManagementLimit", device);
  gpu.default_power_cap_mw = nvml.ask<unsigned>("nvmlDeviceGetPowerManagementDefaultLimit", device);
  gpu.pcie_generation = nvml.ask<unsigned>("nvmlDeviceGetCurrPcieLinkGeneration", device);
  gpu.pcie_width = nvml.ask<unsigned>("nvmlDeviceGetCurrPcieLinkWidth", device);
  gpu.most_generation = nvml.ask<unsigned>("nvmlDeviceGetMaxPcieLinkGeneration", device);
  gpu.most_width = nvml.ask<unsigned>("nvmlDeviceGetMaxPcieLinkWidth", device);
  read_links(nvml, device, gpu);
  gpu.fabric = fabric_of(nvml, device);
  return gpu;
}

void read_pairs(const Library& nvml, const std::vector<Device>& devices, DriverFacts& facts) {
  constexpr int kRead = 0, kWrite = 1, kNvLink = 2;  // nvmlGpuP2PCapsIndex_t
  for (size_t a = 0; a < devices.size(); ++a)
    for (size_t b = a + 1; b < devices.size(); ++b) {
      DriverFacts::Pair pair{a, b};
      const auto ask = [&](int what, int& to) {
        return nvml.call("nvmlDeviceGetP2PStatus", devices[a], devices[b], what, &to) == kSuccess;
      };
      if (!ask(kRead, pair.read) || !ask(kWrite, pair.write) || !ask(kNvLink, pair.nvlink)) continue;
      pair.links = joining_links(facts.gpus[a], facts.gpus[b], pair.nvlink == 0);
      facts.pairs.push_back(pair);
    }
}

void read_all(const Library& nvml, DriverFacts& facts) {
  char version[96] = "";
  if (nvml.call("nvmlSystemGetDriverVersion", static_cast<char*>(version), 96u) == kSuccess)
    facts.driver_version = version;
  version[0] = '\0';
  if (nvml.call("nvmlSystemGetNVMLVersion", static_cast<char*>(version), 96u) == kSuccess)
    facts.library_version = version;
  unsigned count = 0;
  if (int rc = nvml.call("nvmlDeviceGetCount_v2", &count); rc != kSuccess) {
    facts.error = "cannot count the GPUs: " + nvml.error(rc);
    return;
  }
  std::vector<std::pair<GpuHealth, Device>> read;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    // A board that fell off the bus answers with an error here; gpu.present names it.
    if (nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &device) == kSuccess)
      read.emplace_back(read_gpu(nvml, device), device);
  }
  std::sort(read.begin(), read.end(), [](const auto& a, const auto& b) { return a.first.bdf < b.first.bdf; });
  std::vector<Device> devices;
  for (auto& [gpu, device] : read) {
    facts.gpus.push_back(std::move(gpu));
    devices.push_back(device);
  }
  read_pairs(nvml, devices, facts);
}

}  // namespace

int GpuHealth::active_links() const {
  return static_cast<int>(
      std::count_if(links.begin(), links.end(), [](const auto& link) { return link.value_or(false); }));
}

int GpuHealth::all_links() const {
  return static_cast<int>(std::count_if(links.begin(), links.end(), [](const auto& link) { return link.has_value(); }));
}

int joining_links(const GpuHealth& a, const GpuHealth& b, bool reach_by_nvlink) {
  const auto ends_at = [](const GpuHealth& gpu, const std::string& end) {
    return static_cast<int>(std::count(gpu.link_ends.begin(), gpu.link_ends.end(), end));
  };
  if (const int direct = ends_at(a, b.bdf)) return direct;
  if (const int switched = std::min(ends_at(a, "switch"), ends_at(b, "switch"))) return switched;
  return reach_by_nvlink ? std::min(ends_at(a, ""), ends_at(b, "")) : 0;
}

const char* p2p_text(int status) {
  constexpr const char* kTexts[] = {"OK", "chipset", "GPU", "topology", "disabled", "not supported", "unknown"};
  return kTexts[status < 0 || status > 6 ? 6 : status];
}

DriverFacts read_driver(const Symbols& symbols) {
  DriverFacts facts;
  const Library nvml(symbols);
  const int rc = nvml.call("nvmlInit_v2");
  if (rc == kSuccess) {
    read_all(nvml, facts);
    nvml.call("nvmlShutdown");
    return facts;
  }
  facts.error = rc == kMissing ? "libnvidia-ml.so.1 lacks nvmlInit_v2" : nvml.error(rc);
  if (rc == kLibraryMismatch) facts.error += "; the driver was updated under a running system";
  if (rc == kDriverNotLoaded) facts.error += "; modprobe nvidia";
  return facts;
}

DriverFacts read_driver() {
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!handle) return {.error = "no libnvidia-ml.so.1"};
  DriverFacts facts = read_driver([handle](const char* name) { return dlsym(handle, name); });
  dlclose(handle);
  return facts;
}

}  // namespace nccltune::check
