// SPDX-License-Identifier: Apache-2.0
// What `report` understands: rows of every version, labels before the lines, failures, and what it refuses with the
// line.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/report_run.h"
#include "cli/report_text.h"
#include "cli/table.h"

namespace nccltune::cli {
namespace {

Reading read(const std::string& text) { return read_report_file("f.out", text); }

TEST(ReportRows, OfAllVersions) {
  struct Case {
    const char* row;
    const char* op;
    int root;
    double time, busbw;
  };
  const Case cases[] = {
      // 2.8: all_gather, all_reduce, broadcast, reduce
      {"4096 128 float 34.62 0.12 0.10 N/A 34.81 0.12 0.10 N/A", "", -1, 34.62, 0.10},
      {"4096 1024 float sum 35.42 0.06 0.10 2e-07 35.89 0.06 0.10 1e-07", "sum", -1, 35.42, 0.10},
      {"4096 1024 float 0 34.90 0.06 0.06 N/A 34.90 0.06 0.06 N/A", "", 0, 34.90, 0.06},
      {"4096 1024 float sum 0 35.38 0.03 0.03 N/A 35.1 0.03 0.03 N/A", "sum", 0, 35.38, 0.03},
      // a time without a point, and with an exponent
      {"4294967296 33554432 float none -1 44904 95.65 92.66 0 44867 95.73 92.74 0", "", -1, 44904, 92.66},
      {"17179869184 2147483648 double sum -1 1.7e+07 1.01 1.01 0 1.6e+07 1.07 1.07 N/A", "sum", -1, 1.7e7, 1.01},
      // 2.19 with -I, and with -S
      {"8 2 float sum -1 10.5 0.1 0.2 0 9.0 12.0 12.0 3.1 10.6 0.1 0.2 0 9.1 12.1 12.1 3.2", "sum", -1, 10.5, 0.2},
      {"8 2 float sum -1 10.5 0.1 0.2 0 10.6 0.1 0.2 0 2025-11-02 10:11:12", "sum", -1, 10.5, 0.2},
      // hypercube: no operation, but a root
      {"8 2 float -1 10.5 0.1 0.2 0 10.6 0.1 0.2 0", "", -1, 10.5, 0.2},
  };
  for (const Case& c : cases)
    for (const char* prefix :
         {"", "   ", " 0: ", "[1,0]<stdout>:", "   [1,13]<stdout>:  ", "2025-01-31T10:11:12.5Z "}) {
      const Reading reading = read(std::string(prefix) + c.row + "\n");
      ASSERT_EQ(reading.runs.size(), 1u) << prefix << c.row;
      ASSERT_EQ(reading.runs[0].rows.size(), 1u) << prefix << c.row;
      const ReportRow& row = reading.runs[0].rows[0];
      EXPECT_EQ(row.op, c.op) << c.row;
      EXPECT_EQ(row.root, c.root) << c.row;
      EXPECT_DOUBLE_EQ(row.out->time_us, c.time) << c.row;
      EXPECT_DOUBLE_EQ(row.out->busbw, c.busbw) << c.row;
      EXPECT_EQ(reading.refused_in_all, 0) << c.row;
    }
}

TEST(ReportRows, AnErrorOfOldVersionsIsNoCountOfWrongElements) {
  const Reading old = read(
      "#  size count type redop time algbw busbw  error time algbw busbw  error\n"
      "268435456 1048576 float 520935 0.52 0.51 0e+00 519562 0.52 0.51 1e+00\n");
  EXPECT_FALSE(old.runs.at(0).rows.at(0).in->wrong);
  const Reading now = read(
      "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "8 2 float sum -1 10.5 0.1 0.2 0 10.6 0.1 0.2 7\n");
  EXPECT_EQ(now.runs.at(0).rows.at(0).in->wrong, 7);
}

TEST(ReportRows, WhatIsNoRowIsRefusedWithItsLine) {
  const Reading reading = read(
      "8 2 float sum -1 10.5 0.1 0.2 0 10.6 0.1 0.2 0\n"
      "16 4 float sum -1 10.5 0.1\n"
      "32 8 quarter sum -1 10.5 0.1 0.2 0 10.6 0.1 0.2 0\n"
      "64 16 float sum -1 10.5 nan 0.2 0 10.6 0.1 0.2 0\n"
      "...\n");
  EXPECT_EQ(reading.runs.at(0).rows.size(), 1u);
  ASSERT_EQ(reading.refused.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(reading.refused[static_cast<size_t>(i)].line, i + 2);
  EXPECT_EQ(reading.refused[1].why, "unknown datatype 'quarter'");
}

const char kWhole[] =
    "# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid 10 on      n1 device  0 [0000:0f:00] NVIDIA H20\n"
    "#  Rank  1 Group  0 Pid 11 on      n2 device  0 [0000:0f:00] NVIDIA H20\n"
    "n1:10:10 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.1<0>\n"
    "8 2 float sum -1 10.5 0.1 0.2 0 10.6 0.1 0.2 0\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 0.2 \n"
    "# Collective test concluded: all_reduce_perf\n";

TEST(ReportRuns, AWholeFile) {
  const Reading reading = read(std::string(kWhole) + kWhole);
  ASSERT_EQ(reading.runs.size(), 2u);
  for (const ReportRun& run : reading.runs) {
    EXPECT_EQ(run.collective, "all_reduce");
    EXPECT_EQ(run.tool, "nccl-tests 2.17.8");
    EXPECT_EQ(run.nccl, "2.29.2");
    EXPECT_EQ(run.ranks, 2);
    EXPECT_EQ(run.nodes, 2);
    EXPECT_EQ(run.gpu(), "NVIDIA H20");
    EXPECT_TRUE(run.complete);
    EXPECT_EQ(run.mean_busbw, 0.2);
  }
}

TEST(ReportRuns, AFailureIsNamedAndTheRunIsNotComplete) {
  const std::string text = kWhole;
  const Reading reading = read(text.substr(0, text.find("8 2 float")) +
                               "n2: Test NCCL failure common.cu:401 'remote process exited'\n"
                               " .. n2 pid 11: Test failure common.cu:519\n");
  ASSERT_EQ(reading.runs.size(), 1u);
  EXPECT_FALSE(reading.runs[0].complete);
  ASSERT_EQ(reading.runs[0].trouble.size(), 2u);
  EXPECT_EQ(reading.runs[0].trouble[0], "n2: Test NCCL failure common.cu:401 'remote process exited'");
}

TEST(ReportRuns, ProcessesThatRanSeparately) {  // NVIDIA/nccl-tests#213, #306
  const Reading reading = read(
      "# nThread 1 nGpus 8 minBytes 8 maxBytes 8\n# Using devices\n# nThread 1 nGpus 8 minBytes 8 maxBytes 8\n"
      "#  Rank  0 Group  0 Pid 1 on n3 device  0 [0000:0f:00] NVIDIA H20\n"
      "#  Rank  0 Group  0 Pid 2 on n2 device  0 [0000:0f:00] NVIDIA H20\n");
  ASSERT_EQ(reading.runs.size(), 1u);
  ASSERT_FALSE(reading.runs[0].notes.empty());
  EXPECT_NE(reading.runs[0].notes[0].find("#213"), std::string::npos);
}

TEST(ReportJson, OfNcclTests) {
  const Reading reading =
      read(R"({"version": 3, "start_time": "now", "args": ["./build/all_reduce_perf"], "env": ["TOKEN=x"],
    "nccl_version": 22809, "config": {"devices": [{"rank": 0, "hostname": "n1", "device_info": "NVIDIA H200"}]},
    "results": [{"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "    -1",
      "out_of_place": {"time": 10.5, "alg_bw": 0.1, "bus_bw": 0.2, "nwrong": 0}, "in_place": null}],
    "average_bus_bandwidth": {"bandwidth": 0.2, "okay": "true"}, "errors": [], "end_time": "later"})");
  ASSERT_EQ(reading.runs.size(), 1u);
  const ReportRun& run = reading.runs[0];
  EXPECT_EQ(run.collective, "all_reduce");
  EXPECT_EQ(run.nccl, "2.28.9");
  EXPECT_TRUE(run.complete);
  EXPECT_TRUE(run.environment.empty()) << "nccl-tests dumps the whole environment, tokens included";
  ASSERT_EQ(run.rows.size(), 1u);
  EXPECT_EQ(run.rows[0].out->time_us, 10.5);
  EXPECT_FALSE(run.rows[0].in);
}

TEST(ReportJson, FieldsOfOtherTypesCountAsAbsent) {
  for (const char* text :
       {R"({"rows": [1, "x", {"bytes": -5}, {"out_of_place": []}], "devices": 7, "notes": {"a": 1}})",
        R"({"results": [{}], "args": {}, "config": []})", R"({"findings": [3]})", R"({"numa": 1, "gpus": "x"})",
        R"([[], 1, null])"})
    EXPECT_NO_THROW(report_json({read(text)}, {})) << text;
}

TEST(ReportExpected, IsOfTheSameShape) {
  const auto all = read_expected(
      "platform,gpu,nodes,gpus,collective,size_bytes,busbw_gbs,inplace,nccl,notes,source\n"
      "A,H100-SXM,1,8,all_reduce,1073741824,470,0,x,\"8x NVLink, NVLS\",somewhere\n"
      "A,H100-SXM,2,16,all_reduce,1073741824,450,0,x,,somewhere\n");
  ASSERT_EQ(all.size(), 2u);
  ReportRun run;
  run.collective = "all_reduce";
  run.ranks = 8;
  run.devices.push_back({0, "n1", "NVIDIA H100 80GB HBM3"});
  ASSERT_EQ(expected_for(run, all).size(), 1u);
  EXPECT_EQ(expected_for(run, all)[0].busbw, 470);
  run.devices[0].name = "NVIDIA A100";
  EXPECT_TRUE(expected_for(run, all).empty());
}

// A terminal obeys what control characters say, and a result may come from anybody.
TEST(ReportText, HasNoControlCharacterOfAFile) {
  const Reading reading = read(
      "# nThread 1 nGpus 1\n 8 2 flo\x1b[2Jat s\x07um -1 10.5 0.1 0.2 0 10.6 0.1 0.2 0\n"
      " 8 2 \x1b]0;x -1 1\n# NCCL \x1b[31m failure\n");
  const auto expected =
      read_expected("platform,gpu,gpus,collective,size_bytes,busbw_gbs,source\n\x1b[1m,X,8,a,8,1,\x1b[0m\n");
  ASSERT_EQ(expected.size(), 1u);
  for (char c : report_text({reading}, expected, Style{}))
    ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
}

TEST(ReportCounts, BeyondAnIntegerAreTheNearestOne) {
  EXPECT_EQ(count_of(2), 2);
  EXPECT_EQ(count_of(5e307), INT64_MAX);
  EXPECT_EQ(count_of(9223372036854775808.0), INT64_MAX);
  EXPECT_EQ(count_of(-5e307), INT64_MIN);
}

TEST(ReportSizes, AreBinary) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(8589934592), "8G");
  EXPECT_EQ(size_text(1536), "1.5K");
}

}  // namespace
}  // namespace nccltune::cli
