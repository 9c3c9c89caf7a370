// SPDX-License-Identifier: Apache-2.0
// Each fault that a check is for, put into the facts of an otherwise good node.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "check/finding.h"
#include "machines/machine.h"
#include "node/read.h"

namespace nccltune::check {
namespace {

class CheckFaults : public ::testing::Test {
 protected:
  // Two RoCE ports that carry the fabric and a GPU.
  void SetUp() override {
    node_.hostname = "n1";
    node_.driver = {"580.82.07", true};
    node_.kernel_release = "6.1.0";
    for (int i = 0; i < 2; ++i) {
      const std::string number = std::to_string(i), net = "eth" + number, bdf = "0000:3" + number + ":00.0";
      NetInterface interface {
        .name = net, .index = i + 2, .up = true, .running = true, .operstate = "up", .mtu = 9000
      };
      interface.addresses.push_back({.bytes = {10, static_cast<uint8_t>(i), 0, 1}, .prefix = 24});
      node_.net.push_back(interface);
      Gid row{.index = 3, .type = GidType::roce_v2, .netdev = net};
      row.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, static_cast<uint8_t>(i), 0, 1};
      RdmaPort port{
          .state = "ACTIVE", .phys_state = "LinkUp", .link_layer = "Ethernet", .rate_gbps = 400, .netdev = net};
      port.gids.push_back(row);
      RdmaDevice device{
          .name = "mlx5_" + number, .bdf = bdf, .driver = "mlx5_core", .hca_type = "MT4129", .fw_ver = "28.39.1002"};
      device.ports.push_back(port);
      node_.rdma.push_back(device);
      plan_.hcas.push_back({device.name, 1, "compute", "hca.compute", "why"});
      node_.pci[bdf] = {.bdf = bdf, .path = {"pci0000:3" + number, bdf}, .vendor = 0x15b3, .class_code = 0x020000};
    }
    plan_.env.push_back({"NCCL_SOCKET_IFNAME", "=eth0", "socket.default-route", "why"});
    node_.gpus.push_back({.bdf = "0000:3a:00.0", .minor = 0});
    node_.pci["0000:3a:00.0"] = {
        .bdf = "0000:3a:00.0", .path = {"pci0000:3a", "0000:3a:00.0"}, .vendor = 0x10de, .class_code = 0x030200};
    folder_ = nccltune::testing::temporary_folder();
  }

  std::vector<Finding> run(const std::string& family) {
    auto root = Root::open(folder_);
    EXPECT_TRUE(root);
    return run_checks({*root, node_, plan_, step_, std::nullopt, hardware_ ? &*hardware_ : nullptr}, {{family}, {}});
  }

  Status worst(const std::string& id) {
    Status worst = Status::skip;
    for (const Finding& f : run(id.substr(0, id.find('.'))))
      if (f.id == id && f.status != Status::skip) worst = worst == Status::skip ? f.status : std::max(worst, f.status);
    return worst;
  }

  Node node_;
  Plan plan_;
  Step step_;
  std::optional<Hardware> hardware_;
  std::string folder_;
};

TEST_F(CheckFaults, AGoodNodeHasNone) {
  for (const char* family : {"gpu", "rdma", "pcie", "net", "nccl"})
    for (const Finding& f : run(family))
      EXPECT_LE(f.status == Status::skip ? Status::ok : f.status, Status::ok)
          << f.id << " " << f.object << " " << f.observed;
}

TEST_F(CheckFaults, PortDownBesideItsSisters) {
  node_.rdma[1].ports[0].state = "DOWN";
  node_.rdma[1].ports[0].phys_state = "Polling";
  plan_.hcas[1].use = "down";
  EXPECT_EQ(worst("rdma.port-state"), Status::warn);
}

TEST_F(CheckFaults, SlowPort) {
  node_.rdma[1].ports[0].rate_gbps = 200;
  EXPECT_EQ(worst("rdma.rate"), Status::fail);
}

TEST_F(CheckFaults, MixedLinkLayers) {
  node_.rdma[1].ports[0].link_layer = "InfiniBand";
  EXPECT_EQ(worst("rdma.link-layer"), Status::fail);
}

TEST_F(CheckFaults, NoSubnetManager) {
  for (RdmaDevice& device : node_.rdma) {
    device.ports[0].link_layer = "InfiniBand";
    device.ports[0].lid = 7;
    device.ports[0].sm_lid = 1;
  }
  EXPECT_EQ(worst("rdma.lid"), Status::ok);
  node_.rdma[0].ports[0].sm_lid = 0;
  EXPECT_EQ(worst("rdma.lid"), Status::fail);
}

TEST_F(CheckFaults, NoUsableGidRow) {
  node_.rdma[0].ports[0].gids[0].type = GidType::roce_v1;
  EXPECT_EQ(worst("rdma.gid"), Status::fail);
}

TEST_F(CheckFaults, SmallOrUnequalMtu) {
  for (NetInterface& net : node_.net) net.mtu = 1500;
  EXPECT_EQ(worst("rdma.mtu"), Status::warn);
  node_.net[0].mtu = 9000;
  EXPECT_EQ(worst("rdma.mtu"), Status::fail);
}

TEST_F(CheckFaults, DeviceThatCannotBeOpened) {  // NVIDIA/nccl#2428
  node_.rdma[1].openable = false;
  EXPECT_EQ(worst("rdma.access"), Status::fail);
}

TEST_F(CheckFaults, TwoFirmwaresOnOneBoard) {
  node_.rdma[1].fw_ver = "28.38.1900";
  EXPECT_EQ(worst("rdma.firmware"), Status::warn);
}

TEST_F(CheckFaults, NeitherPeermemNorDmaBuf) {  // NVIDIA/nccl#897, #1343
  node_.peermem = false;
  node_.driver.open_modules = false;
  EXPECT_EQ(worst("gpu.gpudirect"), Status::fail);
  node_.peermem = true;
  EXPECT_EQ(worst("gpu.gpudirect"), Status::ok);
  node_.peermem = false;
  node_.driver.open_modules = true;
  node_.kernel_release = "5.11.0";
  EXPECT_EQ(worst("gpu.gpudirect"), Status::fail);
}

TEST_F(CheckFaults, TwoInterfacesInOneSubnet) {  // NVIDIA/nccl#1131, #1581
  node_.net[1].addresses[0].bytes = {10, 0, 0, 2};
  EXPECT_EQ(worst("net.subnets"), Status::warn);
}

TEST_F(CheckFaults, TwoConnectedRoutesToOneNetwork) {  // NVIDIA/nccl#1581
  for (const char* netdev : {"eth0", "eth1"}) {
    Route route{.netdev = netdev};
    route.destination = {.bytes = {10, 0, 16, 0}, .prefix = 20};
    node_.routes.push_back(route);
  }
  EXPECT_EQ(worst("net.connected-routes"), Status::warn);
  node_.routes[1].metric = 100;
  EXPECT_EQ(worst("net.connected-routes"), Status::ok);
}

TEST_F(CheckFaults, AddressOnlyOnLoopback) {  // NVIDIA/nccl#1053
  for (NetInterface& net : node_.net) net.addresses.clear();
  NetInterface lo{.name = "lo", .index = 1, .kind = NetKind::loopback, .up = true};
  lo.addresses.push_back({.bytes = {10, 9, 8, 7}, .prefix = 32});
  node_.net.push_back(lo);
  EXPECT_EQ(worst("net.addresses"), Status::warn);
}

TEST_F(CheckFaults, FlatGuestWithoutATopologyFile) {  // NVIDIA/nccl#1464, #1674, #1843
  node_.hypervisor = true;
  for (auto& [bdf, device] : node_.pci) device.path = {"pci0000:00", bdf};
  EXPECT_EQ(worst("pcie.flat-guest"), Status::warn);
  node_.topology_files.push_back({"/opt/vendor/topo.xml", {}});
  EXPECT_EQ(worst("pcie.flat-guest"), Status::ok);
}

TEST_F(CheckFaults, PeermemUnderItsNewName) {  // NVIDIA/nccl#1676
  node_.peermem = true;
  for (const Finding& f : run("nccl"))
    if (f.id == "nccl.peermem") {
      EXPECT_NE(f.observed.find("2.23"), std::string::npos) << f.observed;
    }
}

TEST_F(CheckFaults, GidRowsThatDiffer) {  // NVIDIA/nccl#890
  node_.rdma[1].ports[0].gids[0].index = 6;
  EXPECT_EQ(worst("rdma.gid-index"), Status::warn);
}

TEST_F(CheckFaults, CpuMaskAwayFromTheGpu) {  // NVIDIA/nccl-tests#57, nccl#1017
  // The check asks a live machine alone.
  const Root live;
  node_.online_cpus = *CpuSet::from_list("0-31");
  node_.pci["0000:3a:00.0"].local_cpus = *CpuSet::from_list("0-15");
  plan_.tasks.push_back({.gpus = {"0000:3a:00.0"}});
  const auto status = [&](const char* mask) {
    const auto findings =
        run_checks({live, node_, plan_, step_, CpuSet::from_list(mask), nullptr}, {{"numa.mask"}, {}});
    return findings.front().status;
  };
  EXPECT_EQ(status("16-31"), Status::fail);
  EXPECT_EQ(status("0"), Status::warn);
  EXPECT_EQ(status("0-7"), Status::ok);
}

TEST_F(CheckFaults, NoSocketInterface) {
  plan_.env.clear();
  EXPECT_EQ(worst("net.socket-interface"), Status::warn);
}

TEST_F(CheckFaults, UsersInterfaceThatIsNotThere) {  // NVIDIA/nccl#1837
  step_.env["NCCL_SOCKET_IFNAME"] = "eth7";
  EXPECT_EQ(worst("nccl.values"), Status::warn);
}

TEST_F(CheckFaults, NarrowLink) {
  PciDevice& device = node_.pci["0000:30:00.0"];
  device.current_link_speed = device.max_link_speed = "32.0 GT/s PCIe";
  device.current_link_width = device.max_link_width = "16";
  EXPECT_EQ(worst("pcie.link"), Status::ok);
  device.current_link_width = "8";
  EXPECT_EQ(worst("pcie.link"), Status::warn);
}

TEST_F(CheckFaults, BlanksInAConfFile) {
  node_.nccl_conf.push_back({"NCCL_DEBUG", "INFO ", "/etc/nccl.conf", 2});
  EXPECT_EQ(worst("nccl.conf-files"), Status::warn);
}

TEST(CheckTable, EveryCheckSaysWhoAndWhyAndHasAnIdOfItsOwn) {
  std::set<std::string> ids;
  for (const Check& check : all_checks()) {
    EXPECT_TRUE(ids.insert(check.id).second) << check.id;
    EXPECT_TRUE(std::string(check.id).starts_with(std::string(check.family) + ".")) << check.id;
    EXPECT_STRNE(check.why, "") << check.id;
    EXPECT_STRNE(check.source, "") << check.id;
  }
}

// Whatever the machine, every check leaves at least one finding, and a fault has what mends it.
TEST(CheckTable, EveryMachineGetsEveryId) {
  for (const std::string& name : nccltune::testing::machine_names()) {
    const Root root = nccltune::testing::machine(name);
    const Node node = read_node(root, {});
    const Step step{.outside_slurm = true};
    const Plan plan = plan_node(node, Policy{}, step);
    std::set<std::string> seen;
    for (const Finding& f : run_checks({root, node, plan, step, std::nullopt, nullptr}, {})) {
      seen.insert(f.id);
      EXPECT_NE(f.observed, "") << name << " " << f.id;
      if (f.status == Status::warn || f.status == Status::fail) {
        EXPECT_NE(f.wanted, "") << name << " " << f.id;
        EXPECT_NE(f.remedy, "") << name << " " << f.id;
      }
    }
    EXPECT_EQ(seen.size(), all_checks().size()) << name;
  }
}

}  // namespace
}  // namespace nccltune::check
