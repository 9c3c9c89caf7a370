// SPDX-License-Identifier: Apache-2.0
// The data path of every rank, judged by its node and told at rank 0. Log lines as NCCL 2.18 to 2.30 write them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/rank_path.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* kGpu = "0000:3b:00.0";

std::string log_line(const std::string& text) { return "n1:1:2 [0] NCCL INFO " + text + "\n"; }

std::string ib(const std::string& sends) {
  return log_line("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/RoCE [RO]; OOB eth0:10.0.0.1<0>") +
         log_line("Using network IB") + sends;
}

std::string send_via(const std::string& way) { return log_line("Channel 00/0 : 0[0] -> 8[0] [send] via " + way); }

NodeView node_with(std::vector<std::string> near, std::optional<bool> gpudirect = true) {
  NodeView view;
  view.active_hcas = {"mlx5_0:1", "mlx5_1:1"};
  view.gpudirect = gpudirect;
  view.hcas_near = [near](const std::string& bdf) { return bdf == kGpu ? near : std::vector<std::string>{}; };
  return view;
}

std::vector<std::string> faults(const std::string& log, const NodeView& view,
                                const std::map<std::string, std::string>& environment = {}) {
  return judge(0, parse_data_path(log), view, kGpu, environment).faults;
}

std::string who(int rank) { return print("rank %d (n%d)", rank, rank / 2); }

TEST(BenchRankPath, NearestHcaWithGpudirectIsWell) {
  EXPECT_THAT(faults(ib(send_via("NET/IB/1/GDRDMA")), node_with({"mlx5_1"})), IsEmpty());
  EXPECT_THAT(faults(ib(send_via("NET/IB/1/GDRDMA/Shared")), node_with({"mlx5_0", "mlx5_1"})), IsEmpty());
}

TEST(BenchRankPath, AnotherNicThanThePlansIsNamed) {
  EXPECT_THAT(faults(ib(send_via("NET/IB/0/GDRDMA")), node_with({"mlx5_1"})),
              ElementsAre("used mlx5_0:1; the plan's for this GPU: mlx5_1"));
}

TEST(BenchRankPath, ProxiesOfOtherRanksAreNotThisRanksChoice) {
  EXPECT_THAT(faults(ib(send_via("NET/IB/0(3)/GDRDMA")), node_with({"mlx5_1"})), IsEmpty());
}

// Two ports that NCCL merged into one device (2.24 and newer): it is one of each.
TEST(BenchRankPath, MergedDevicesAreKnownByTheirParts) {
  const std::string merged =
      ib(log_line("NET/IB : Made virtual device [3] name=mlx5_0+mlx5_1 speed=400000 ndevs=2 rail=-1 plane=-1") +
         send_via("NET/IB/3/GDRDMA"));
  EXPECT_THAT(faults(merged, node_with({"mlx5_1"})), IsEmpty());
  EXPECT_THAT(faults(merged, node_with({"mlx5_2"})), ElementsAre(HasSubstr("used mlx5_0+mlx5_1;")));
}

TEST(BenchRankPath, StagedThoughItCouldBeDirect) {
  EXPECT_THAT(faults(ib(send_via("NET/IB/1")), node_with({"mlx5_1"})),
              ElementsAre(AllOf(HasSubstr("without GPUDirect RDMA"), HasSubstr("could do"))));
  EXPECT_THAT(faults(ib(send_via("NET/IB/1")), node_with({"mlx5_1"}, false)), IsEmpty()) << "nothing to be done";
  EXPECT_THAT(faults(ib(send_via("NET/IB/1")), node_with({"mlx5_1"}), {{"NCCL_NET_GDR_LEVEL", "LOC"}}), IsEmpty())
      << "the user's own word";
}

TEST(BenchRankPath, SocketsDespiteActiveHcas) {
  const std::string tcp = log_line("NET/IB : No device found.") + log_line("NET/Socket : Using [0]eth0:10.0.0.1<0>") +
                          log_line("Using network Socket") + send_via("NET/Socket/0");
  EXPECT_THAT(faults(tcp, node_with({})),
              ElementsAre(AllOf(StartsWith("NCCL went over TCP sockets"), HasSubstr("mlx5_0:1 mlx5_1:1"),
                                HasSubstr("none of them"))));
  EXPECT_THAT(faults(tcp, {}), IsEmpty()) << "no HCA, no fault";
  EXPECT_THAT(faults(tcp, {}, {{"NCCL_IB_HCA", "=mlx5_9:1"}}), ElementsAre(HasSubstr("=mlx5_9:1")));
  EXPECT_THAT(faults(tcp, node_with({}), {{"NCCL_IB_DISABLE", "1"}}), IsEmpty());
}

TEST(BenchRankPath, SurvivesTheWireWithinItsBounds) {
  RankPath path = judge(7, parse_data_path(ib(send_via("NET/IB/0"))), node_with({"mlx5_1"}), kGpu, {});
  path.faults.push_back("a\tb\nc");
  const auto back = unpack_path(pack(path));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->rank, 7);
  EXPECT_EQ(back->network, "IB");
  EXPECT_EQ(back->net, 1);
  EXPECT_EQ(back->net_gdr, 0);
  ASSERT_EQ(back->faults.size(), path.faults.size());
  EXPECT_EQ(back->faults.back(), "a b c");
  path.faults.assign(100, std::string(1000, 'x'));
  EXPECT_LE(pack(path).size(), kMostBytes);
  EXPECT_TRUE(unpack_path(pack(path)));
  for (const char* text : {"", "1", "x\t1\t0\t0\t00000\tIB\t", "1\t1\t0\t0\t0\tIB\t"})
    EXPECT_FALSE(unpack_path(text)) << text;
}

RankPath of(int rank, const std::string& sends, const NodeView& view = {}) {
  return judge(rank, parse_data_path(ib(sends)), view, kGpu, {});
}

TEST(BenchRankPath, TheMajorityIsToldAndTheMinorityNamed) {
  const std::string direct = send_via("NET/IB/0/GDRDMA") + log_line("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM");
  std::vector<RankPath> paths;
  for (int rank = 0; rank < 6; ++rank) paths.push_back(of(rank, direct));
  EXPECT_THAT(describe_paths(paths, 6, who),
              ElementsAre("data path of all 6 ranks: IB with GPUDirect RDMA; peer to peer within the node"));
  paths[4] = of(4, send_via("NET/IB/0") + log_line("Channel 00/0 : 4[0] -> 5[1] via SHM/direct/direct"));
  const auto lines = describe_paths(paths, 6, who);
  ASSERT_EQ(lines.size(), 4u) << join(lines, "\n");
  EXPECT_THAT(lines[0], AllOf(StartsWith("WARNING: rank 4 (n2): "), HasSubstr("without GPUDirect RDMA")));
  EXPECT_EQ(lines[1], "data path of all 6 ranks: IB with GPUDirect RDMA; peer to peer within the node");
  EXPECT_EQ(lines[2], "rank 4 (n2): IB through host memory, where most have IB with GPUDirect RDMA");
  EXPECT_THAT(lines[3], HasSubstr("rank 4 (n2): shared memory within the node"));
}

// A rank in the middle of a node has no channel of its own to the network: that is no difference.
TEST(BenchRankPath, RanksWithoutNetworkChannelsDoNotDiffer) {
  const std::string inner = log_line("Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM");
  const std::vector<RankPath> paths = {of(0, send_via("NET/IB/0/GDRDMA") + inner), of(1, inner)};
  EXPECT_THAT(describe_paths(paths, 2, who), ElementsAre(Not(HasSubstr("WARNING"))));
}

TEST(BenchRankPath, ManyRanksOfOneFaultAreOneLine) {
  std::vector<RankPath> paths;
  for (int rank = 0; rank < 512; ++rank)
    paths.push_back(of(rank, send_via(rank % 2 ? "NET/IB/0/GDRDMA" : "NET/IB/1/GDRDMA"), node_with({"mlx5_0"})));
  const auto lines = describe_paths(paths, 512, who);
  EXPECT_THAT(lines[0], AllOf(StartsWith("WARNING: 256 ranks, 0,2,4,"), HasSubstr("first rank 0 (n0)"),
                              HasSubstr("used mlx5_1:1; the plan's for this GPU: mlx5_0")));
  EXPECT_LT(lines[0].size(), 300u);
  EXPECT_EQ(lines.size(), 2u);
}

TEST(BenchRankPath, RanksWithoutALogAreCounted) {
  EXPECT_THAT(describe_paths({of(0, send_via("NET/IB/0/GDRDMA"))}, 8, who),
              ElementsAre(StartsWith("data path of 1 of 8 ranks: ")));
  EXPECT_THAT(describe_paths({}, 8, who), IsEmpty());
}

}  // namespace
}  // namespace nccltune::bench
