// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "machines/machine.h"
#include "node/read.h"
#include "node/wire.h"

namespace nccltune::testing {
namespace {

// Each fact of every machine: the bytes hold them all, as a field that kFields lacks does not compile.
TEST(Wire, EveryMachineComesBackAsItWas) {
  std::size_t largest = 0;
  for (const std::string& name : machine_names()) {
    const Node node = read_node(machine(name), {});
    const std::string bytes = to_bytes(node);
    const std::optional<Node> again = from_bytes(bytes);
    ASSERT_TRUE(again) << name;
    EXPECT_EQ(to_bytes(*again), bytes) << name;
    EXPECT_EQ(again->pci.size(), node.pci.size());
    EXPECT_EQ(again->online_cpus, node.online_cpus);
    largest = std::max(largest, bytes.size());
  }
  EXPECT_GT(largest, 10000u);
}

TEST(Wire, ACutMessageIsNone) {
  const std::string bytes = to_bytes(read_node(machine("dgx-spark-gb10"), {}));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(from_bytes(std::string_view(bytes).substr(0, size))) << size;
  EXPECT_FALSE(from_bytes(bytes + '\0'));
}

// What is not nonsense all the same is a node that can be written again.
TEST(Wire, AChangedMessageDoesNoHarm) {
  const std::string bytes = to_bytes(read_node(machine("dgx-spark-gb10"), {}));
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (unsigned char change : {0x01, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] ^= static_cast<char>(change);
      if (const auto node = from_bytes(changed)) {
        const auto again = from_bytes(to_bytes(*node));
        ASSERT_TRUE(again && to_bytes(*again) == to_bytes(*node)) << at;
      }
    }
}

// A length of 4 GiB must not be believed.
TEST(Wire, ALengthBeyondTheEndTakesNoMemory) { EXPECT_FALSE(from_bytes(std::string(64, '\xff'))); }

}  // namespace
}  // namespace nccltune::testing
