// SPDX-License-Identifier: Apache-2.0
// Every recorded machine through the reader, against the right answers that its record carries. A key that a record
// does not have is told by no source, and nothing is asserted for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "machines/machine.h"
#include "node/distance.h"
#include "node/read.h"

namespace nccltune {
namespace {

using Json = nlohmann::json;

class RecordedMachine : public ::testing::TestWithParam<std::string> {
 protected:
  RecordedMachine() : record(Json::parse(testing::machine_record(GetParam()))), expected(record["expected"]) {
    ReadOptions options;
    if (expected.contains("nccl_topo_file"))
      options.topology_files.push_back(expected["nccl_topo_file"].get<std::string>());
    node = read_node(testing::machine(GetParam()), options);
    // The record of this file kept none of its PCI groups, so the laid-out one is empty and answers nothing.
    untold = expected.contains("nccl_topo_file") && record["topo_file_bridges"].empty();
  }

  // The object under a key; an empty one where no source tells.
  const Json& answers(const char* key) const {
    static const Json kNone = Json::object();
    return expected.contains(key) ? expected[key] : kNone;
  }

  bool untold = false;
  Json record, expected;
  Node node;
};

std::optional<int> numa_in_record(const Json& value) {
  return value.is_number_integer() && value.get<int>() >= 0 ? std::optional(value.get<int>()) : std::nullopt;
}

TEST_P(RecordedMachine, NumaNodesAreThoseOfTheRecord) {
  ASSERT_EQ(node.numa.size(), record["numa"].size());
  for (const Json& want : record["numa"]) {
    const auto have =
        std::find_if(node.numa.begin(), node.numa.end(), [&](const NumaNode& n) { return n.id == want["id"]; });
    ASSERT_NE(have, node.numa.end()) << want["id"];
    EXPECT_EQ(have->cpus, *CpuSet::from_list(want["cpulist"].is_string() ? want["cpulist"].get<std::string>() : ""));
    // The layout writes no meminfo for 0.
    if (const uint64_t kb = want["memory_kb"].is_number() ? want["memory_kb"].get<uint64_t>() : 0) {
      EXPECT_EQ(have->memory_kb, kb);
    }
  }
}

TEST_P(RecordedMachine, GpusHaveTheirMinorAndUuidInPciOrder) {
  std::vector<Json> want(record["gpus"].begin(), record["gpus"].end());
  std::sort(want.begin(), want.end(), [](const Json& a, const Json& b) { return a["bdf"] < b["bdf"]; });
  ASSERT_EQ(node.gpus.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(node.gpus[i].bdf, want[i]["bdf"].get<std::string>());
    EXPECT_EQ(node.gpus[i].minor, want[i]["minor"].get<int>());
    EXPECT_EQ(node.gpus[i].uuid, want[i]["uuid"].get<std::string>());
  }
  if (expected.contains("nvidia_gpus")) {
    EXPECT_EQ(node.gpus.size(), expected["nvidia_gpus"].get<size_t>());
  }
}

TEST_P(RecordedMachine, PciFunctionsHaveTheirPath) {
  ASSERT_EQ(node.pci.size(), record["pci"].size());
  for (const Json& want : record["pci"]) {
    const PciDevice* have = node.find_pci(want["bdf"]);
    ASSERT_NE(have, nullptr) << want["bdf"];
    std::vector<std::string> path = want["parents"];
    path.push_back(want["bdf"]);
    EXPECT_EQ(have->path, path);
  }
}

TEST_P(RecordedMachine, GpuNumaNode) {
  if (untold) GTEST_SKIP() << "the topology file's groups are not recorded";
  for (const auto& [bdf, numa] : answers("gpu_numa").items())
    EXPECT_EQ(numa_of(node, bdf), numa_in_record(numa)) << bdf;
}

TEST_P(RecordedMachine, GpuCpus) {
  if (untold) GTEST_SKIP() << "the topology file's groups are not recorded";
  for (const auto& [bdf, cpus] : answers("gpu_cpus").items()) {
    const auto near = cpus_near(node, bdf);
    ASSERT_TRUE(near.has_value()) << bdf;
    EXPECT_EQ(near->list(), CpuSet::from_list(cpus.get<std::string>())->list()) << bdf;
  }
}

TEST_P(RecordedMachine, RdmaNumaNode) {
  for (const auto& [name, numa] : answers("rdma_numa").items()) {
    const RdmaDevice* device = node.find_rdma(name);
    ASSERT_NE(device, nullptr) << name;
    EXPECT_EQ(numa_of(node, device->bdf), numa_in_record(numa)) << name;
  }
}

// Among the devices that the record says are usable, those at the smallest distance.
TEST_P(RecordedMachine, GpuNearNic) {
  if (untold) GTEST_SKIP() << "the topology file's groups are not recorded";
  const auto usable = expected.value("nccl_ib_hca", std::vector<std::string>());
  for (const auto& [bdf, want] : answers("gpu_near_nic").items()) {
    Distance nearest = Distance::unknown;
    std::set<std::string> have;
    for (const std::string& name : usable) {
      const RdmaDevice* device = node.find_rdma(name);
      ASSERT_NE(device, nullptr) << name;
      const Distance d = distance(node, bdf, device->bdf);
      if (d < nearest) have.clear();
      nearest = std::min(nearest, d);
      if (d == nearest && d != Distance::unknown) have.insert(name);
    }
    EXPECT_EQ(have, want.get<std::set<std::string>>()) << bdf << " at " << name(nearest);
  }
}

// The rows of `nvidia-smi topo -m`, word for word.
TEST_P(RecordedMachine, MatrixIsThatOfNvidiaSmi) {
  const Json& matrix = record["matrix"];
  if (!matrix.is_object() || !matrix.contains("columns")) GTEST_SKIP() << "no matrix recorded";
  if (record["rdma"].empty()) GTEST_SKIP() << "the matrix is of another node of this model; no RDMA device here";
  std::map<int, std::string> by_index;  // nvidia-smi numbers by PCI order
  for (const Gpu& gpu : node.gpus) by_index.emplace(static_cast<int>(by_index.size()), gpu.bdf);
  for (const auto& [index, bdf] : by_index) {
    const std::string row = "GPU" + std::to_string(index);
    if (!matrix.contains(row)) continue;
    std::istringstream words(matrix[row].get<std::string>());
    for (const std::string column : matrix["columns"]) {
      std::string want;
      ASSERT_TRUE(words >> want);
      const RdmaDevice* device = node.find_rdma(column);
      ASSERT_NE(device, nullptr) << column;
      EXPECT_EQ(std::string(name(distance(node, bdf, device->bdf))), want) << row << " " << bdf << " " << column;
    }
  }
}

TEST_P(RecordedMachine, PortsAndGidTables) {
  ASSERT_EQ(node.rdma.size(), record["rdma"].size());
  for (const Json& want : record["rdma"]) {
    const RdmaDevice* have = node.find_rdma(want["name"]);
    ASSERT_NE(have, nullptr) << want["name"];
    EXPECT_EQ(have->bdf, want["bdf"].is_string() ? want["bdf"].get<std::string>() : "");
    ASSERT_EQ(have->ports.size(), want["ports"].size());
    for (size_t i = 0; i < have->ports.size(); ++i) {
      const RdmaPort& port = have->ports[i];
      const Json& recorded = want["ports"][i];
      if (recorded["state"].is_string()) {
        EXPECT_NE(recorded["state"].get<std::string>().find(": " + port.state), std::string::npos);
      }
      if (recorded["link_layer"].is_string()) {
        EXPECT_EQ(port.link_layer, recorded["link_layer"].get<std::string>());
      }
      if (recorded["rate"].is_string()) {
        EXPECT_EQ(port.rate_gbps, std::stod(recorded["rate"].get<std::string>()));
      }
      const Json& gids = recorded["gids"];
      ASSERT_EQ(port.gids.size(), gids.size()) << have->name;
      for (size_t g = 0; g < gids.size(); ++g) {
        EXPECT_EQ(port.gids[g].index, gids[g]["index"]);
        if (port.link_layer == "InfiniBand") {
          EXPECT_EQ(port.gids[g].type, GidType::infiniband);
          continue;
        }
        EXPECT_EQ(port.gids[g].type == GidType::roce_v2, gids[g]["type"] == "RoCE v2");
        if (gids[g]["ndev"].is_string()) {
          EXPECT_EQ(port.gids[g].netdev, gids[g]["ndev"].get<std::string>());
        }
      }
    }
  }
}

// The record lists an interface's addresses; /proc does not say whose an IPv4 address is.
TEST_P(RecordedMachine, AddressesFindTheirInterface) {
  for (const Json& want : record["net"]) {
    const NetInterface* have = node.find_net(want["name"]);
    ASSERT_NE(have, nullptr) << want["name"];
    std::set<std::string> addresses, recorded;
    for (const IpAddress& address : have->addresses)
      addresses.insert(address.text() + "/" + std::to_string(address.prefix));
    // A link-local address without a route is nobody's in /proc.
    for (const std::string address : want.value("addresses", Json::array()))
      if (!address.starts_with("169.254.") || !address.ends_with("/32")) recorded.insert(address);
    EXPECT_EQ(addresses, recorded) << have->name;
  }
}

TEST_P(RecordedMachine, FastReadingTellsThePlanTheSame) {
  ReadOptions options;
  options.details = false;
  if (expected.contains("nccl_topo_file"))
    options.topology_files.push_back(expected["nccl_topo_file"].get<std::string>());
  const Node fast = read_node(testing::machine(GetParam()), options);
  ASSERT_EQ(fast.gpus.size(), node.gpus.size());
  ASSERT_EQ(fast.rdma.size(), node.rdma.size());
  for (const Gpu& gpu : node.gpus) {
    EXPECT_EQ(numa_of(fast, gpu.bdf), numa_of(node, gpu.bdf));
    EXPECT_EQ(cpus_near(fast, gpu.bdf), cpus_near(node, gpu.bdf));
    for (const RdmaDevice& device : node.rdma)
      EXPECT_EQ(distance(fast, gpu.bdf, device.bdf), distance(node, gpu.bdf, device.bdf));
  }
  for (size_t i = 0; i < node.rdma.size(); ++i) EXPECT_EQ(fast.rdma[i].ports.size(), node.rdma[i].ports.size());
}

INSTANTIATE_TEST_SUITE_P(All, RecordedMachine, ::testing::ValuesIn(testing::machine_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace nccltune
