// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "machines/machine.h"
#include "node/distance.h"
#include "node/dump.h"
#include "node/neutral.h"
#include "node/readers.h"

namespace nccltune {
namespace {

Node read_back(const std::string& dump) {
  const std::string file = testing::temporary_folder() + "/machine.dump";
  std::ofstream(file) << dump;
  auto root = Root::open(file);
  EXPECT_TRUE(root.ok()) << (root.ok() ? "" : root.error().text());
  return read_node(*root, {});
}

// All that a plan can depend on, without the values that a dump replaces.
std::string facts(const Node& node) {
  std::string out = "cpus " + node.online_cpus.list() + "\n";
  for (const NumaNode& numa : node.numa) out += "numa " + std::to_string(numa.id) + " " + numa.cpus.list() + "\n";
  for (const auto& [bdf, pci] : node.pci)
    out += "pci " + bdf + " " + std::to_string(pci.class_code.value_or(0)) + " " + pci.driver + " " +
           std::to_string(numa_of(node, bdf).value_or(-1)) + " " + pci.current_link_speed + "\n";
  for (const Gpu& gpu : node.gpus)
    out +=
        "gpu " + gpu.bdf + " " + std::to_string(gpu.minor.value_or(-1)) + " " + std::to_string(gpu.uuid.size()) + "\n";
  for (const RdmaDevice& device : node.rdma)
    for (const RdmaPort& port : device.ports) {
      out += "port " + device.name + " " + device.bdf + " " + device.parent_netdev + " " + port.state + " " +
             port.link_layer + " " + port.netdev;
      for (const Gid& gid : port.gids)
        out += " " + std::to_string(gid.index) + (gid.is_ipv4() ? "v4" : "v6") + (gid.is_link_local() ? "l" : "") +
               std::to_string(static_cast<int>(gid.type)) + gid.netdev;
      out += "\n";
    }
  for (const NetInterface& net : node.net) {
    out += "net " + net.name + " " + std::to_string(static_cast<int>(net.kind)) + " " + net.bdf + " " + net.driver +
           " " + net.master + " " + net.lower + (net.running ? " running" : "") + (net.usb ? " usb" : "");
    for (const IpAddress& a : net.addresses)
      out += std::string(a.v6 ? " v6/" : " v4/") + std::to_string(a.prefix) + (a.is_link_local() ? "l" : "");
    out += "\n";
  }
  for (const Route& route : node.routes)
    out += "route " + route.netdev + " " + std::to_string(route.destination.prefix) + "\n";
  for (const auto& [field, value] : node.dmi)
    out += "dmi " + field + (field == "chassis_asset_tag" ? "" : " " + value) + "\n";
  return out + node.driver.version;
}

TEST(Dump, ReadsBackAsTheSameNode) {
  std::vector<std::string> names = testing::machine_names();
  names.insert(names.end(), {"capture-rxe-4numa", "capture-ib-gpu-4numa", "capture-mlx5like-roce-gpu-4numa"});
  for (const std::string& name : names) {
    const Root root = testing::machine(name);
    const auto dump = write_dump(root, {});
    ASSERT_TRUE(dump.ok()) << name;
    EXPECT_EQ(facts(read_back(*dump)), facts(read_node(root, {}))) << name;
  }
}

TEST(Dump, OfADumpIsTheSameDump) {
  const auto dump = write_dump(testing::machine("hgx-roce-bond-a"), {});
  const std::string file = testing::temporary_folder() + "/machine.dump";
  std::ofstream(file) << *dump;
  const auto again = write_dump(*Root::open(file), {});
  EXPECT_EQ(std::count(again->begin(), again->end(), '\n'), std::count(dump->begin(), dump->end(), '\n'));
}

TEST(Dump, HoldsNoIdentifierOfTheMachine) {
  for (const std::string& name : testing::machine_names()) {
    const auto record = nlohmann::json::parse(testing::machine_record(name));
    const std::string dump = *write_dump(testing::machine(name), {});
    for (const auto& gpu : record["gpus"])
      EXPECT_EQ(dump.find(gpu["uuid"].get<std::string>()), std::string::npos) << name;
    for (const auto& hca : record["rdma"])
      if (hca["node_guid"].is_string()) {
        EXPECT_EQ(dump.find(hca["node_guid"].get<std::string>()), std::string::npos) << name << hca["node_guid"];
      }
    for (const auto& net : record["net"]) {
      const std::string mac = net["address"].is_string() ? net["address"].get<std::string>() : "";
      // Two records have made-up addresses that look like our stand-ins.
      if (mac.size() == 17 && !mac.starts_with("00:00:00:00:") && !mac.starts_with("02:00:00:00:")) {
        EXPECT_EQ(dump.find(mac), std::string::npos) << name << mac;
      }
    }
  }
}

TEST(Dump, OfTheLiveMachineReadsBack) {
  const auto dump = write_dump(Root(), {});
  ASSERT_TRUE(dump.ok());
  const Node live = read_node(Root(), {}), again = read_back(*dump);
  EXPECT_EQ(again.online_cpus, live.online_cpus);
  EXPECT_EQ(again.pci.size(), live.pci.size());
  EXPECT_EQ(again.net.size(), live.net.size());
  EXPECT_EQ(again.hostname, "node");
  for (size_t i = 0; i < live.net.size(); ++i) EXPECT_EQ(again.net[i].addresses.size(), live.net[i].addresses.size());
}

// A host's name can read like a kernel's own: NUMA node 1 of host node1 is still NUMA node 1.
TEST(Dump, OfAHostNamedLikeANumaNodeKeepsTheNode) {
  namespace fs = std::filesystem;
  const std::string folder = testing::temporary_folder() + "/tree";
  fs::copy(testing::machine_folder("dgx-a100-80gb"), folder,
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  fs::create_directories(folder + "/proc/sys/kernel");
  std::ofstream(folder + "/proc/sys/kernel/hostname") << "node1\n";
  const Node node = read_node(*Root::open(folder), {}), again = read_back(*write_dump(*Root::open(folder), {}));
  ASSERT_EQ(node.hostname, "node1");
  EXPECT_EQ(again.hostname, "node");
  EXPECT_EQ(facts(again), facts(node));
}

TEST(Dump, NeedsAMachine) {
  const std::string empty = testing::temporary_folder();
  EXPECT_EQ(write_dump(*Root::open(empty), {}).error().object, empty + "/sys");
}

TEST(Neutral, ReplacesTheSameBySameAndKeepsSubnets) {
  Neutral neutral("gpu017.example.org");
  EXPECT_EQ(neutral.text("gpu017 mlx5_0"), "node mlx5_0");
  EXPECT_EQ(neutral.text("gpu0171"), "gpu0171");
  EXPECT_EQ(neutral.text("0c:42:a1:00:00:01 and 0C:42:A1:00:00:01"), "02:00:00:00:00:01 and 02:00:00:00:00:01");
  EXPECT_EQ(neutral.text("enx0c42a1000001"), "enx020000000001");
  EXPECT_EQ(neutral.text("0000:3b:00.0 10.1.2.3 580.82.07"), "0000:3b:00.0 10.1.2.3 580.82.07");
  const IpAddress a = neutral.address(*parse_address("131.169.5.7/20")),
                  b = neutral.address(*parse_address("131.169.9.1"));
  EXPECT_TRUE(a.contains(b));
  EXPECT_NE(a.text(), "131.169.5.7");
  EXPECT_EQ(neutral.address(*parse_address("2001:638:700::12")).text().substr(0, 9), "2001:db8:");
  EXPECT_EQ(neutral.address(*parse_address("fe80::1")).text(), "fe80::1");
  EXPECT_EQ(neutral.text("fe80:0000:0000:0000:0e42:a1ff:fe00:0001"), "fe80:0000:0000:0000:0200:00ff:fe00:0001");
}

// The 20 bytes of an IPoIB interface end in the port's GUID; /proc/net/ipv6_route has addresses without colons.
TEST(Neutral, ReplacesGuidsInIpoibAddressesAndIpv6Routes) {
  Neutral neutral("gpu017");
  const std::string ipoib = "00:00:10:87:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:5b:c4:d2";
  EXPECT_EQ(neutral.text(ipoib), "00:00:10:87:fe:80:00:00:00:00:00:00:02:00:00:ff:fe:00:00:01");
  EXPECT_EQ(neutral.text("fe80:0000:0000:0000:0c42:a103:005b:c4d2"), "fe80:0000:0000:0000:0200:00ff:fe00:0001");
  EXPECT_EQ(neutral.ipv6_routes("200106380700000000000000000000ab 40 fe800000000000000c42a103005bc4d2 00000400 ib0\n"),
            "20010db80001000000000000000000ab 40 fe80000000000000020000fffe000001 00000400 ib0\n");
}

}  // namespace
}  // namespace nccltune
