// SPDX-License-Identifier: Apache-2.0
// The report against nccl-tests 2.19.6's own output for the same numbers, byte for byte (tests/golden/bench_*.txt).
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/report_csv.h"
#include "bench/report_json.h"
#include "bench/report_text.h"
#include "bench/text.h"
#include "unit/json_schema.h"
#include "unit/temporary.h"

namespace nccltune::bench {
namespace {

namespace fs = std::filesystem;

std::string golden(const std::string& name) {
  const std::string text = read_file(fs::path(__FILE__).parent_path() / "../golden" / ("bench_" + name + ".txt"));
  EXPECT_FALSE(text.empty()) << name;
  return text;
}

struct Point {
  uint64_t bytes;
  double micros;
};
constexpr Point kPoints[] = {{8, 13.67},
                             {1024, 98.765},
                             {65536, 123.456},
                             {1048576, 999.994},
                             {4194304, 999.996},
                             {16777216, 1112.54},
                             {67108864, 9999.94},
                             {134217728, 9999.96},
                             {268435456, 15749.4},
                             {536870912, 99999.4},
                             {1073741824, 123456.7},
                             {2147483648, 1234567.8},
                             {4294967296, 12345678.9},
                             {8589934592, 0.78},
                             {137438953472, 31307.0}};

RunInfo golden_info(protocol::Collective collective, int pid) {
  static const char* kBuses[] = {"19", "2d", "3f", "66", "9b", "ae", "bf", "e4"};
  RunInfo info;
  info.tool = "nccl-tests";
  info.version = "2.19.6";
  info.header_code = info.library_code = 22809;
  info.options.collective = collective;
  info.options.gpus = 8;
  info.options.min_bytes = 8;
  info.options.max_bytes = info.max_bytes = 8589934592;
  info.options.factor = 2;
  info.ranks = 8;
  for (int i = 0; i < 8; ++i) {
    DeviceLine device;
    device.rank = device.device = i;
    device.pid = pid;
    device.host = "node001.cluster.example";
    device.bdf = std::string("0000:") + kBuses[i] + ":00.0";
    device.name = "NVIDIA H200";
    info.devices.push_back(device);
  }
  return info;
}

struct Measured {
  RunInfo info;
  std::vector<Row> rows;
  Ending ending;

  std::string text() const {
    std::string text = header_text(info);
    for (const Row& row : rows) text += row_text(info.options, row);
    return text + ending_text(info, ending);
  }
};

// The numbers that the golden files were made from; `factor` is the bus factor of 8 ranks.
Measured golden_run(protocol::Collective collective, int pid, const char* op, int root, double factor,
                    bool check_in = true, bool check_out = true) {
  Measured run;
  run.info = golden_info(collective, pid);
  double sum = 0;
  for (const Point& point : kPoints) {
    Row row;
    row.asked = row.bytes = point.bytes;
    row.elements = point.bytes / 4;
    row.type = "float";
    row.op = op;
    row.root = root;
    row.stamp = 1795950969;  // 2026-11-29 11:16:09 UTC
    for (Half* half : {&row.out, &row.in}) {
      half->ran = true;
      half->checked = half == &row.in ? check_in : check_out;
      half->seconds = half->cpu_seconds = point.micros / 1e6 * (half == &row.in ? 0.99 : 1);
      half->algbw = point.bytes / half->seconds / 1e9;
      half->busbw = half->algbw * factor;
      half->summary.min = half->seconds;
      half->summary.max = half->summary.p99_nearest = half->seconds * 1.04;
      half->summary.cv = 0.0139;
      sum += half->busbw;
    }
    run.rows.push_back(row);
  }
  run.ending.complete = true;
  run.ending.mean_busbw = sum / (2 * std::size(kPoints));
  return run;
}

Measured all_reduce(int pid) { return golden_run(protocol::Collective::all_reduce, pid, "sum", -1, 1.75); }

class Golden : public testing::Test {
 protected:
  Golden() {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(Golden, Plain) { EXPECT_EQ(all_reduce(25249).text(), golden("all_reduce_plain")); }

TEST_F(Golden, AlltoallHasNoCheckInPlace) {
  EXPECT_EQ(golden_run(protocol::Collective::alltoall, 25257, "none", -1, 0.875, false).text(),
            golden("alltoall_plain"));
}

TEST_F(Golden, BroadcastShowsItsRoot) {
  EXPECT_EQ(golden_run(protocol::Collective::broadcast, 25261, "none", 0, 0.875).text(), golden("broadcast_plain"));
}

// nccl-tests leaves redop empty here, which breaks readers that count 13 words; the format is checked with "", and
// BenchCollectives.RedopIsNeverEmpty checks that we never feed it so.
TEST_F(Golden, Hypercube) {
  EXPECT_EQ(golden_run(protocol::Collective::hypercube, 25258, "", -1, 0.875).text(), golden("hypercube_plain"));
}

TEST_F(Golden, PerIteration) {
  Measured run = all_reduce(25250);
  run.info.options.per_iteration = 1;
  EXPECT_EQ(run.text(), golden("all_reduce_I1"));
}

TEST_F(Golden, TimeStamps) {
  Measured run = all_reduce(25251);
  run.info.options.timestamps = 1;
  EXPECT_EQ(run.text(), golden("all_reduce_S1"));
}

TEST_F(Golden, PerIterationWithTimeStamps) {
  Measured run = all_reduce(25252);
  run.info.options.timestamps = run.info.options.per_iteration = 1;
  run.info.options.announce_json = true;
  run.info.options.json = "ar.json";
  EXPECT_EQ(run.text(), golden("all_reduce_I1_S1_J"));
}

TEST_F(Golden, CpuTime) {
  Measured run = all_reduce(25259);
  run.info.options.cpu_time = 1;
  EXPECT_EQ(run.text(), golden("all_reduce_C1"));
}

TEST_F(Golden, Memory) {
  Measured run = all_reduce(25254);
  run.ending.memory = "Initialization 1.50 GB | User-Allocated 24.0 GB | Collective 4.00 MB | Total  25.5 GB";
  EXPECT_EQ(run.text(), golden("all_reduce_M1"));
}

TEST_F(Golden, Unchecked) {
  Measured run = golden_run(protocol::Collective::all_reduce, 25253, "sum", -1, 1.75, false, false);
  run.info.options.check = 0;
  EXPECT_EQ(run.text(), golden("all_reduce_c0"));
}

TEST_F(Golden, MinimumMet) {
  Measured run = all_reduce(25255);
  run.ending.mean_ok = true;
  EXPECT_EQ(run.text(), golden("all_reduce_minbw_ok"));
}

TEST_F(Golden, WrongData) {
  Measured run = all_reduce(25256);
  run.ending.mean_ok = true;
  run.ending.wrong_checks = 3;
  run.rows[5].out.wrong = run.rows[5].in.wrong = 4096000;  // a count of elements, printed with %6g
  EXPECT_EQ(run.text(), golden("all_reduce_wrong_minbw_failed"));
}

TEST(BenchReport, ReducedMaximumIsSaid) {
  RunInfo info = golden_info(protocol::Collective::all_reduce, 1);
  info.max_bytes = 1234;
  EXPECT_NE(header_text(info).find("#\n# Reducing maxBytes to 1234 due to memory limitation\n#\n#   "),
            std::string::npos);
}

TEST(BenchReport, BrokenRunHasNoFooter) {
  Measured run = all_reduce(1);
  run.ending.complete = false;
  run.ending.trouble.lines = {"rank 3 on node002 hung", "rank 3: FAILED bandwidth"};
  const std::string text = run.text();
  EXPECT_EQ(text.find("Out of bounds values"), std::string::npos);
  EXPECT_EQ(text.find("Avg bus bandwidth"), std::string::npos);
  EXPECT_NE(text.find("# error: rank 3 at node002 hung\n# rank 3: failed band-width\n"), std::string::npos);
}

TEST(BenchReport, NotesHoldNoWordThatReadersSearchFor) {
  const std::string text = neutral_comment(
      "Avg bus bandwidth FAILED out-of-place Out of bounds values Test failure Test NCCL failure on node7 Rank device "
      "NVIDIA\nx");
  for (const char* word : {"bandwidth", "FAILED", "out-of-place", "Out of bounds values", "Avg bus", "Test failure",
                           "Test NCCL failure", " on ", "Rank", "\n"})
    EXPECT_EQ(text.find(word), std::string::npos) << word << " in: " << text;
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    old_ = fs::current_path();
    fs::current_path(folder_);
  }
  void TearDown() override { fs::current_path(old_); }
  const TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
  fs::path old_;
  const fs::path source_ = fs::absolute(fs::path(__FILE__)).parent_path();  // before the folder is changed
};

TEST_F(Files, JsonIsADocumentAfterEveryRow) {
  Measured run = all_reduce(1);
  run.rows[0].out.samples = {
      {20e-6, 20e-6, 10e-6, 0, 3, 3}, {40e-6, 40e-6, 20e-6, 1, 3, 3}, {9e-6, 9e-6, 1e-6, 0, 3, 3}};
  run.rows[0].out.summary = summarise(run.rows[0].out.samples, 0, 8);
  run.rows[1].in.wrong = 5;
  run.rows[1].in.wrong_rank = 2;
  run.rows[1].out.repeats = {10, 3, 4, 17, 2, 1, 77, "1.5 (0x3fc00000)", "1.50000012 (0x3fc00001)"};
  run.rows[1].in.repeats.runs = 10;
  auto sink = open_named("r.json");
  ASSERT_TRUE(sink.ok());
  const auto schema = nlohmann::json::parse(read_file(source_ / "../../etc/nccl-tune-bench.schema.json"));
  JsonReporter reporter(std::move(*sink));
  run.info.plan = {{"NCCL_IB_HCA", "=mlx5_0:1"}};
  reporter.start(run.info);
  EXPECT_EQ(nlohmann::json::parse(read_file("r.json"))["rows"].size(), 0u);
  for (size_t i = 0; i < run.rows.size(); ++i) {
    reporter.add(run.rows[i]);
    const auto json = nlohmann::json::parse(read_file("r.json"));
    EXPECT_EQ(json["rows"].size(), i + 1);
    EXPECT_EQ(json["complete"], false);
    expect_valid(schema, json, "unfinished document");
  }
  reporter.finish(run.ending);
  const auto json = nlohmann::json::parse(read_file("r.json"));
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["rows"][0]["out_of_place"]["iterations"]["late_rank"], 3);
  EXPECT_EQ(json["rows"][0]["out_of_place"]["iterations"]["p99_us"], nullptr);
  EXPECT_EQ(json["rows"][1]["in_place"]["first_wrong"]["rank"], 2);
  EXPECT_EQ(json["rows"][1]["out_of_place"]["repeats"]["differing"], 3);
  EXPECT_EQ(json["rows"][1]["out_of_place"]["repeats"]["first"]["element"], 77);
  EXPECT_EQ(json["rows"][1]["in_place"]["repeats"]["first"], nullptr);
  EXPECT_EQ(json["rows"][0]["out_of_place"]["repeats"], nullptr);
  EXPECT_EQ(json["rows"][0]["root"], nullptr);
  EXPECT_EQ(json["devices"].size(), 8u);
  expect_valid(schema, json, "document");
}

TEST_F(Files, CsvHasAsManyCellsAsItsHead) {
  Measured run = all_reduce(1);
  run.info.devices[0].name = "GPU, \"big\"";
  const auto cells = split(csv_head(), ',').size();
  const std::string rows = csv_rows(run.info, run.rows[0]);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 2);
  EXPECT_EQ(split(split(rows, '\n')[0], ',').size(), cells + 1);  // the comma within the quoted name
  EXPECT_NE(rows.find("\"GPU, \"\"big\"\"\""), std::string::npos);
}

TEST_F(Files, JobFileIsNeverOverwritten) {
  auto first = open_job_file("7", "0", 1);
  ASSERT_TRUE(first.ok() && first->sink);
  EXPECT_EQ(first->sink->name(), "nccl_test_7.out");
  first->sink->write("one");
  auto second = open_job_file("7", "1", 1);
  ASSERT_TRUE(second.ok() && second->sink);
  EXPECT_EQ(second->sink->name(), "nccl_test_7.1.out");
  EXPECT_FALSE(second->note.empty());
  auto third = open_job_file("7", "1", 1);
  ASSERT_TRUE(third.ok() && third->sink);
  EXPECT_EQ(third->sink->name(), "nccl_test_7.1.1.out");
  EXPECT_EQ(read_file("nccl_test_7.out"), "one");
}

TEST_F(Files, LinkIsNotFollowed) {
  std::ofstream("victim") << "precious";
  fs::create_symlink("victim", "nccl_test_8.out");
  fs::create_symlink("nowhere", "nccl_test_8.0.out");
  auto file = open_job_file("8", "0", 1);
  ASSERT_TRUE(file.ok() && file->sink);
  EXPECT_EQ(file->sink->name(), "nccl_test_8.0.1.out");
  file->sink->write("x");
  EXPECT_EQ(read_file("victim"), "precious");
  EXPECT_FALSE(fs::exists("nowhere"));
}

TEST_F(Files, StdoutThatIsTheFileIsNotWrittenTwice) {
  std::ofstream("nccl_test_9.out") << "";
  FILE* out = std::fopen("nccl_test_9.out", "w");
  auto file = open_job_file("9", "0", fileno(out));
  std::fclose(out);
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->sink);
}

TEST_F(Files, FullDiskIsToldOnce) {
  auto sink = open_named("/dev/full");
  ASSERT_TRUE(sink.ok());
  testing::internal::CaptureStderr();
  sink->write("a");
  sink->write("b");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, "nccl-tune: /dev/full: cannot write: No space left on device; the report goes on without it\n");
  EXPECT_TRUE(sink->broken());
}

}  // namespace
}  // namespace nccltune::bench
