// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "cli/topo_links.h"

namespace nccltune::cli {
namespace {

check::DriverFacts driver_of(int gpus, const std::vector<check::DriverFacts::Pair>& pairs) {
  check::DriverFacts driver;
  for (int i = 0; i < gpus; ++i) {
    check::GpuHealth gpu;
    gpu.bdf = "0000:0" + std::to_string(i + 1) + ":00.0";
    driver.gpus.push_back(gpu);
  }
  driver.pairs = pairs;
  return driver;
}

Node node_of(int gpus) {
  Node node;
  for (int i = 0; i < gpus; ++i) {
    Gpu gpu;
    gpu.bdf = "0000:0" + std::to_string(i + 1) + ":00.0";
    node.gpus.push_back(gpu);
  }
  return node;
}

TEST(TopoLinks, AreAMatrixBothWaysRound) {
  const GpuLinks links = links_of(driver_of(3, {{.a = 0, .b = 1, .links = 18}, {.a = 0, .b = 2}, {.a = 1, .b = 2}}));
  EXPECT_EQ(links_text(node_of(3), links, Style{}),
            "\nNVLinks between GPUs (from the driver)\n"
            "        GPU0  GPU1  GPU2\n"
            "  GPU0  X     NV18  ?\n"
            "  GPU1  NV18  X     ?\n"
            "  GPU2  ?     ?     X\n"
            "\n  NV# = by # NVLinks, directly or through switches; else the distance over PCIe\n");
}

TEST(TopoLinks, AreLeftOutWhereThereAreNone) {
  EXPECT_EQ(links_text(node_of(2), links_of(driver_of(2, {{.a = 0, .b = 1}})), Style{}), "");
  EXPECT_EQ(links_text(node_of(2), {}, Style{}), "");
}

}  // namespace
}  // namespace nccltune::cli
