// SPDX-License-Identifier: Apache-2.0
// What the driver's library, libibverbs and the kernel's log say, and what the checks make of it. The libraries here
// are functions of this file, handed over by name as dlsym hands over the real ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "check/finding.h"
#include "machines/machine.h"

namespace nccltune::check {
namespace {

// ---- a driver's library of two GPUs ----

struct FakeGpu {
  unsigned bus = 0;
  unsigned dead_links = 0;  // of 18, the first ones
  int peer = 0;             // status with every other
};
std::vector<FakeGpu> gpus;
int init_result = 0;

FakeGpu* gpu_of(void* device) { return static_cast<FakeGpu*>(device); }

int init() { return init_result; }
const char* error_text(int code) { return code == 18 ? "Driver/library version mismatch" : "Unknown Error"; }
int driver_version(char* text, unsigned size) {
  std::strncpy(text, "580.82.07", size);
  return 0;
}
int device_count(unsigned* count) {
  *count = static_cast<unsigned>(gpus.size());
  return 0;
}
int device_handle(unsigned index, void** device) {
  *device = &gpus[index];
  return 0;
}
int pci_info(void* device, void* out) {  // nvmlPciInfo_t: a text of 16 bytes, then domain, bus, device
  const unsigned numbers[3] = {0, gpu_of(device)->bus, 0};
  std::memcpy(static_cast<char*>(out) + 16, numbers, sizeof numbers);
  return 0;
}
int device_name(void*, char* text, unsigned size) {
  std::strncpy(text, "NVIDIA H100", size);
  return 0;
}
int link_state(void* device, unsigned link, unsigned* active) {
  *active = link >= gpu_of(device)->dead_links;
  return 0;
}
int p2p_status(void* a, void* b, int, int* status) {
  *status = std::max(gpu_of(a)->peer, gpu_of(b)->peer);
  return 0;
}
int remapped(void*, unsigned* correctable, unsigned* uncorrectable, unsigned* pending, unsigned* failed) {
  *correctable = 0;
  *uncorrectable = 1;
  *pending = 1;
  *failed = 0;
  return 0;
}
int fabric_info(void*, void* out) {  // nvmlGpuFabricInfo_t: 16 bytes, status, clique, state
  std::memset(out, 0, 25);
  static_cast<char*>(out)[24] = 2;  // in progress: no fabric manager
  return 0;
}

template <class F>
void* address(F function) {
  return reinterpret_cast<void*>(function);
}

void* driver_symbol(const char* name) {
  static const std::map<std::string, void*> kSymbols{{"nvmlInit_v2", address(init)},
                                                     {"nvmlErrorString", address(error_text)},
                                                     {"nvmlSystemGetDriverVersion", address(driver_version)},
                                                     {"nvmlDeviceGetCount_v2", address(device_count)},
                                                     {"nvmlDeviceGetHandleByIndex_v2", address(device_handle)},
                                                     {"nvmlDeviceGetPciInfo_v3", address(pci_info)},
                                                     {"nvmlDeviceGetName", address(device_name)},
                                                     {"nvmlDeviceGetNvLinkState", address(link_state)},
                                                     {"nvmlDeviceGetP2PStatus", address(p2p_status)},
                                                     {"nvmlDeviceGetRemappedRows", address(remapped)},
                                                     {"nvmlDeviceGetGpuFabricInfo", address(fabric_info)}};
  const auto it = kSymbols.find(name);
  return it == kSymbols.end() ? nullptr : it->second;
}

class DriverLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    init_result = 0;
    gpus = {{.bus = 0x9a}, {.bus = 0x3b}};
  }
};

TEST_F(DriverLibrary, TellsItsGpusByAddress) {
  const DriverFacts facts = read_driver(driver_symbol);
  EXPECT_EQ(facts.error, "");
  EXPECT_EQ(facts.driver_version, "580.82.07");
  ASSERT_EQ(facts.gpus.size(), 2u);
  EXPECT_EQ(facts.gpus[0].bdf, "0000:3b:00.0");
  EXPECT_EQ(facts.gpus[1].bdf, "0000:9a:00.0");
  EXPECT_EQ(facts.gpus[0].active_links(), 18);
  ASSERT_TRUE(facts.gpus[0].rows);
  EXPECT_TRUE(facts.gpus[0].rows->pending);
  ASSERT_TRUE(facts.gpus[0].fabric);
  EXPECT_EQ(facts.gpus[0].fabric->state, 2);
  EXPECT_FALSE(facts.gpus[0].ecc) << "the library lacks nvmlDeviceGetEccMode";
  ASSERT_EQ(facts.pairs.size(), 1u);
  EXPECT_EQ(facts.pairs[0].links, 18) << "the other ends are not told";
}

TEST(JoiningLinks, AreCountedAsNvidiaSmiDoes) {
  const auto gpu = [](const char* bdf, std::vector<std::string> ends) {
    GpuHealth health;
    health.bdf = bdf;
    health.link_ends = std::move(ends);
    return health;
  };
  const std::string a = "0000:07:00.0", b = "0000:0f:00.0";
  // A bridge or a mesh: those that end at each other, whatever goes elsewhere.
  EXPECT_EQ(joining_links(gpu(a.c_str(), {b, b, "0000:47:00.0"}), gpu(b.c_str(), {a, a}), true), 2);
  // Switches join all; a GPU with dead links is joined by those that it has left.
  EXPECT_EQ(joining_links(gpu(a.c_str(), {"switch", "switch", "switch"}), gpu(b.c_str(), {"switch", "switch"}), true),
            2);
  // A guest that does not see its switches.
  EXPECT_EQ(joining_links(gpu(a.c_str(), {"", "", ""}), gpu(b.c_str(), {"", "", ""}), true), 3);
  EXPECT_EQ(joining_links(gpu(a.c_str(), {"", "", ""}), gpu(b.c_str(), {"", "", ""}), false), 0);
  // Two pairs by bridges: not joined across.
  EXPECT_EQ(joining_links(gpu(a.c_str(), {"0000:47:00.0"}), gpu(b.c_str(), {"0000:4e:00.0"}), true), 0);
  EXPECT_EQ(joining_links(gpu(a.c_str(), {}), gpu(b.c_str(), {}), true), 0);
}

TEST_F(DriverLibrary, MismatchIsTold) {
  init_result = 18;
  EXPECT_EQ(read_driver(driver_symbol).error.find("Driver/library version mismatch"), 0u);
}

TEST_F(DriverLibrary, WithoutItsFunctionsIsAnErrorAndNoCrash) {
  EXPECT_NE(read_driver([](const char*) -> void* { return nullptr; }).error, "");
}

// ---- judged ----

class HardwareChecks : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* bdf : {"0000:3b:00.0", "0000:9a:00.0"}) {
      node_.gpus.push_back({.bdf = bdf, .minor = static_cast<int>(node_.gpus.size())});
      GpuHealth gpu{
          .bdf = bdf, .name = "NVIDIA H100", .vbios = "96.00", .persistence = true, .ecc = true, .mig = false};
      gpu.volatile_uncorrectable = 0;
      gpu.rows = RemappedRows{};
      gpu.throttle = 0;
      gpu.power_cap_mw = gpu.default_power_cap_mw = 700000;
      gpu.pcie_generation = 1;  // idle
      gpu.most_generation = 5;
      gpu.pcie_width = gpu.most_width = 16;
      gpu.links.assign(18, true);
      gpu.fabric = Fabric{.state = 3};
      hardware_.driver.gpus.push_back(gpu);
    }
    hardware_.driver.pairs.push_back({0, 1});
    folder_ = nccltune::testing::temporary_folder();
  }

  Status worst(const std::string& id) {
    auto root = Root::open(folder_);
    Status worst = Status::ok;
    size_t seen = 0;
    for (const Finding& f : run_checks({*root, node_, plan_, step_, std::nullopt, &hardware_}, {{id}, {}})) {
      if (f.status == Status::skip) continue;
      ++seen;
      worst = std::max(worst, f.status);
    }
    EXPECT_GT(seen, 0u) << id << " looked at nothing";
    return worst;
  }

  GpuHealth& gpu() { return hardware_.driver.gpus[1]; }

  Node node_;
  Plan plan_;
  Step step_;
  Hardware hardware_;
  std::string folder_;
};

TEST_F(HardwareChecks, HealthyGpusHaveNoFault) {
  for (const char* id :
       {"gpu.ecc", "gpu.remapped-rows", "gpu.throttle", "gpu.persistence", "gpu.mig", "gpu.power-cap", "gpu.pcie-width",
        "gpu.vbios", "gpu.xid", "gpu.count", "nvlink.links", "nvlink.peer-access", "nvlink.fabric"})
    EXPECT_EQ(worst(id), Status::ok) << id;
}

TEST_F(HardwareChecks, EachFaultIsFound) {
  const std::vector<std::tuple<const char*, Status, std::function<void()>>> faults{
      {"gpu.ecc", Status::fail, [&] { gpu().volatile_uncorrectable = 2; }},
      {"gpu.ecc", Status::warn, [&] { gpu().ecc = false; }},
      {"gpu.remapped-rows", Status::fail, [&] { gpu().rows->pending = true; }},
      {"gpu.remapped-rows", Status::fail, [&] { gpu().rows->failed = true; }},
      {"gpu.throttle", Status::fail, [&] { gpu().throttle = 0x40; }},
      {"gpu.persistence", Status::warn, [&] { gpu().persistence = false; }},
      {"gpu.mig", Status::warn, [&] { gpu().mig = true; }},
      {"gpu.power-cap", Status::warn, [&] { gpu().power_cap_mw = 500000; }},
      {"gpu.pcie-width", Status::warn, [&] { gpu().pcie_width = 8; }},
      {"gpu.vbios", Status::warn, [&] { gpu().vbios = "95.00"; }},
      {"gpu.count", Status::fail, [&] { hardware_.driver.gpus.pop_back(); }},
      {"nvlink.links", Status::fail, [&] { gpu().links[3] = false; }},
      {"nvlink.peer-access", Status::warn, [&] { hardware_.driver.pairs[0].read = 5; }},
      {"nvlink.fabric", Status::fail, [&] { gpu().fabric->state = 2; }},  // pytorch/pytorch#177472, NVIDIA/nccl#1488
      {"nvlink.degraded", Status::fail, [&] { gpu().fabric->health = 1; }},
      {"gpu.xid", Status::fail,
       [&] { hardware_.log.lines = {"NVRM: Xid (PCI:0000:9a:00): 79, pid=1, GPU has fallen off the bus."}; }},
      {"gpu.xid", Status::warn, [&] { hardware_.log.lines = {"NVRM: Xid (PCI:0000:9a:00): 13, pid=1, Graphics"}; }},
      {"gpu.library", Status::fail, [&] { hardware_.driver.error = "Driver/library version mismatch"; }},
  };
  const Hardware good = hardware_;
  for (const auto& [id, status, break_it] : faults) {
    hardware_ = good;
    break_it();
    EXPECT_EQ(worst(id), status) << id;
  }
}

TEST_F(HardwareChecks, IdleThrottleReasonsAreNoFault) {
  gpu().throttle = 0x1 | 0x4;  // idle, software power cap
  EXPECT_EQ(worst("gpu.throttle"), Status::ok);
}

TEST_F(HardwareChecks, BoardsWithoutABridgeHaveNoFault) {
  for (GpuHealth& one : hardware_.driver.gpus) one.links.assign(18, false);
  EXPECT_EQ(worst("nvlink.links"), Status::ok);
}

TEST_F(HardwareChecks, UnequalMtuAndNoDmaBuf) {
  for (int i = 0; i < 2; ++i) {
    const std::string name = "mlx5_" + std::to_string(i);
    node_.rdma.push_back({.name = name, .bdf = "0000:30:00." + std::to_string(i)});
    node_.rdma.back().ports.push_back({.state = "ACTIVE"});
    plan_.hcas.push_back({name, 1, "compute", "", ""});
    hardware_.verbs.devices[name].active_mtu[1] = 4096;
    hardware_.verbs.devices[name].dma_buf = true;
  }
  EXPECT_EQ(worst("rdma.active-mtu"), Status::ok);
  EXPECT_EQ(worst("rdma.dma-buf"), Status::ok);
  hardware_.verbs.devices["mlx5_1"].active_mtu[1] = 1024;
  hardware_.verbs.devices["mlx5_1"].dma_buf = false;
  EXPECT_EQ(worst("rdma.active-mtu"), Status::fail);
  EXPECT_EQ(worst("rdma.dma-buf"), Status::warn);
  node_.peermem = true;
  EXPECT_EQ(worst("rdma.dma-buf"), Status::ok);
}

// ---- the kernel's log ----

TEST(KernelLog, XidsAreTakenFromTheLinesOfTheDriver) {
  EXPECT_EQ(xid_in("NVRM: Xid (PCI:0000:C1:00): 48, pid=7, DBE"), (Xid{"0000:c1:00.0", 48}));
  EXPECT_EQ(xid_in("[ 1.0] NVRM: Xid (PCI:0000:3b:00.0): 120, GSP"), (Xid{"0000:3b:00.0", 120}));
  EXPECT_EQ(xid_in("NVRM: GPU at PCI:0000:3b:00: GPU-1234"), std::nullopt);
  EXPECT_EQ(xid_in("NVRM: Xid (PCI:0000:3b:00): many"), std::nullopt);
}

TEST(KernelLog, RecordsOlderThanAskedAreLeftOut) {
  EXPECT_EQ(message_of("4,99,7200000001,-;hello\n SUBSYSTEM=pci\n", 7200000000), "hello");
  EXPECT_EQ(message_of("4,99,7199999999,-;hello\n", 7200000000), std::nullopt);
  EXPECT_EQ(message_of("no record", 0), std::nullopt);
}

// ---- libibverbs ----

int port_result = 0;
int reg_errno = EBADF;
char the_device, the_context, the_domain;
void* the_list[] = {&the_device, nullptr};

void** device_list(int* count) {
  *count = 1;
  return the_list;
}
void release_list(void**) {}
const char* device_label(void*) { return "mlx5_0"; }
void* open_device(void*) { return &the_context; }
int close_device(void*) { return 0; }
int query_port(void*, uint8_t, void* out) {
  const int head[3] = {4, 5, 5};
  std::memcpy(out, head, sizeof head);
  return port_result;
}
void* alloc_pd(void*) { return &the_domain; }
int dealloc_pd(void*) { return 0; }
void* reg_dmabuf(void*, uint64_t, size_t, uint64_t, int, int) {
  errno = reg_errno;
  return nullptr;
}

void* verbs_symbol(const char* name) {
  static const std::map<std::string, void*> kSymbols{{"ibv_get_device_list", address(device_list)},
                                                     {"ibv_free_device_list", address(release_list)},
                                                     {"ibv_get_device_name", address(device_label)},
                                                     {"ibv_open_device", address(open_device)},
                                                     {"ibv_close_device", address(close_device)},
                                                     {"ibv_query_port", address(query_port)},
                                                     {"ibv_alloc_pd", address(alloc_pd)},
                                                     {"ibv_dealloc_pd", address(dealloc_pd)},
                                                     {"ibv_reg_dmabuf_mr", address(reg_dmabuf)}};
  const auto it = kSymbols.find(name);
  return it == kSymbols.end() ? nullptr : it->second;
}

TEST(Verbs, TellTheMtuAndWhetherDmaBufIsKnown) {
  VerbsFacts facts = read_verbs(verbs_symbol, {{"mlx5_0", {1}}});
  ASSERT_TRUE(facts.devices.contains("mlx5_0"));
  EXPECT_EQ(facts.devices["mlx5_0"].active_mtu[1], 4096);
  EXPECT_EQ(facts.devices["mlx5_0"].dma_buf, true);
  reg_errno = EOPNOTSUPP;
  EXPECT_EQ(read_verbs(verbs_symbol, {{"mlx5_0", {1}}}).devices["mlx5_0"].dma_buf, false);
  reg_errno = EBADF;
  EXPECT_TRUE(read_verbs(verbs_symbol, {{"mlx5_7", {1}}}).devices.empty()) << "only what was asked for is opened";
}

// ---- the site's list ----

TEST(IgnoredChecks, AreShownAndDoNotCount) {
  const auto policy = parse_policy(
      "ignore_checks:\n  - {id: rdma.rate, object: 'mlx5_1*', reason: a slow cable is on order}\n", "p.yaml");
  ASSERT_TRUE(policy) << policy.error().text();
  std::vector<Finding> findings{{.id = "rdma.rate", .status = Status::fail, .object = "mlx5_1:1"},
                                {.id = "rdma.rate", .status = Status::fail, .object = "mlx5_2:1"}};
  mark_ignored(policy->ignore_checks, findings);
  EXPECT_EQ(findings[0].ignored, "a slow cable is on order");
  EXPECT_FALSE(findings[0].counts_as_failed());
  EXPECT_TRUE(findings[1].counts_as_failed());
}

TEST(IgnoredChecks, NeedAReason) {
  const auto policy = parse_policy("ignore_checks:\n  - {id: rdma.rate}\n", "p.yaml");
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().object, "p.yaml:2:5");
}

TEST(Selection, TakesFamiliesAndIds) {
  const Check check{"rdma.rate", "rdma", "", "", nullptr};
  EXPECT_TRUE((Selection{{}, {}}.takes(check)));
  EXPECT_TRUE((Selection{{"rdma.rate"}, {}}.takes(check)));
  EXPECT_FALSE((Selection{{"rdma"}, {"rdma.rate"}}.takes(check)));
  EXPECT_FALSE((Selection{{"net"}, {}}.takes(check)));
}

}  // namespace
}  // namespace nccltune::check
