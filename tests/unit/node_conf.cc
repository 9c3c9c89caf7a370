// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "machines/machine.h"
#include "node/read.h"

namespace nccltune {
namespace {

namespace fs = std::filesystem;

class ConfTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(top + path).parent_path());
    std::ofstream(top + path) << content;
  }
  std::vector<ConfLine> read(const ReadOptions& options) { return read_node(*Root::open(top), options).nccl_conf; }

  const std::string top = testing::temporary_folder();
};

TEST_F(ConfTest, LinesAreTakenAsNcclTakesThem) {
  write("/etc/nccl.conf",
        "# comment\n"
        " # no comment: column 1, and no equals sign\n"
        "NCCL_IB_HCA==mlx5_0\n"
        " NCCL_DEBUG=INFO \n"
        "UCX_TLS=tcp\n"
        "NCCL_EMPTY=\n"
        "=nameless\n"
        "NCCL_LAST=" +
            std::string(2000, 'v'));
  const auto lines = read({});
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].name, "NCCL_IB_HCA");
  EXPECT_EQ(lines[0].value, "=mlx5_0");
  EXPECT_EQ(lines[0].line, 3);
  EXPECT_EQ(lines[1].name, " NCCL_DEBUG");
  EXPECT_EQ(lines[1].value, "INFO ");
  EXPECT_EQ(lines[2].name, "UCX_TLS");
  EXPECT_EQ(lines[3].value, "");
  EXPECT_EQ(lines[4].value.size(), 1023u);
}

TEST_F(ConfTest, TheUsersFileComesBeforeTheHosts) {
  write("/etc/nccl.conf", "A=host\n");
  write("/home/user/.nccl.conf", "A=home\n");
  write("/scratch/my.conf", "A=named\n");
  ReadOptions options;
  options.home = "/home/user";
  auto lines = read(options);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].value, "home");
  EXPECT_EQ(lines[0].file, "/home/user/.nccl.conf");
  EXPECT_EQ(lines[1].file, "/etc/nccl.conf");
  options.nccl_conf_file = "/scratch/my.conf";
  lines = read(options);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].value, "named");
}

TEST_F(ConfTest, ProbesAnswerForEveryPatternAsked) {
  write("/opt/vendor/topo-h100.xml", "");
  ReadOptions options;
  options.probe = {"/opt/vendor/*.xml", "/opt/*/none", "/opt/vendor", "/usr/local/gib"};
  const auto files = read_node(*Root::open(top), options).files;
  EXPECT_EQ(files, (std::map<std::string, bool>{{"/opt/vendor/*.xml", true},
                                                {"/opt/vendor/topo-h100.xml", true},
                                                {"/opt/*/none", false},
                                                {"/opt/vendor", true},
                                                {"/usr/local/gib", false}}));
}

using ReaderTest = ConfTest;

// In a tree without the lower_* links of a stacked interface.
TEST_F(ReaderTest, VlanThatOnlyTheKernelsVlanFileTellsTheDeviceOf) {
  write("/sys/class/net/rail2/uevent", "INTERFACE=rail2\nIFINDEX=2\n");
  write("/sys/class/net/rail2.100/uevent", "DEVTYPE=vlan\nINTERFACE=rail2.100\nIFINDEX=3\n");
  write("/proc/net/vlan/rail2.100",
        "rail2.100  VID: 100\t REORDER_HDR: 1  dev->priv_flags: 1021\n"
        "         total frames received            0\n"
        "Device: rail2\nINGRESS priority mappings: 0:0  1:0\n");
  const Node node = read_node(*Root::open(top), {});
  ASSERT_NE(node.find_net("rail2.100"), nullptr);
  EXPECT_EQ(node.find_net("rail2.100")->lower, "rail2");
}

TEST_F(ReaderTest, GpuWithoutAPciAddressIsToldAndLeftOut) {
  write("/proc/driver/nvidia/gpus/odd/information", "Model: \t NVIDIA H100\nDevice Minor: \t 0\n");
  const Node node = read_node(*Root::open(top), {});
  EXPECT_TRUE(node.gpus.empty());
  EXPECT_EQ(std::count_if(node.notes.begin(), node.notes.end(),
                          [](const Note& note) { return note.object == "/proc/driver/nvidia/gpus/odd"; }),
            1);
}

}  // namespace
}  // namespace nccltune
