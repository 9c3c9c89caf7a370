// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "worker/common_io.h"
#include "worker/common_shape.h"

namespace nccltune::worker {
namespace {

const Traffic kByDistance;

Shape shape(Collective collective, DataType type, uint64_t bytes, uint32_t ranks) {
  return shape_of(collective, type, bytes, ranks, kByDistance);
}

// Columns as nccl-tests 2.19.6 prints them.
TEST(Shape, PlainCollectivesTakeWholeElements) {
  for (Collective c : {Collective::all_reduce, Collective::broadcast, Collective::reduce, Collective::sendrecv}) {
    const Shape s = shape(c, DataType::float32, 1027, 3);
    EXPECT_EQ(s.count, 256u);
    EXPECT_EQ(s.bytes(), 1024u);
    EXPECT_EQ(s.send_offset + s.receive_offset, 0u);
  }
}

TEST(Shape, SharesAreTrimmedToSixteenBytes) {
  const Shape gather = shape(Collective::all_gather, DataType::half, 1000, 3);
  EXPECT_EQ(gather.count, 160u);  // 500 elements / 3 = 166, down to a multiple of 8
  EXPECT_EQ(gather.bytes(), 960u);
  EXPECT_EQ(gather.send, 160u);
  EXPECT_EQ(gather.send_offset, 160u);
  const Shape scatter = shape(Collective::reduce_scatter, DataType::int8, 1000, 3);
  EXPECT_EQ(scatter.count, 320u);
  EXPECT_EQ(scatter.receive, 320u);
  EXPECT_EQ(scatter.receive_offset, 320u);
  EXPECT_EQ(scatter.bytes(), 960u);
  EXPECT_EQ(shape(Collective::all_gather, DataType::float32, 8, 2).bytes(), 0u);
}

TEST(Shape, AlltoallvSharesGrowWithTheDistance) {
  const Shape s = shape(Collective::alltoallv, DataType::float32, 6144, 4);
  const auto sent = sent_to(s, 1, 4, kByDistance);
  EXPECT_EQ(sent, (std::vector<uint64_t>{768, 0, 256, 512}));  // distances 3, 0, 1, 2 of 6
  EXPECT_EQ(received_from(s, 1, 4, kByDistance), (std::vector<uint64_t>{256, 0, 768, 512}));
  EXPECT_EQ(s.bytes(), 6144u);
  EXPECT_EQ(shape(Collective::alltoallv, DataType::float32, 100, 1).bytes(), 96u);
  Traffic even;
  even.spread = 0;
  EXPECT_EQ(even.bytes(0, 0, 4, 6144), 1536u);
}

TEST(Shape, TheWalkEndsBeforeTheBufferDoes) {
  const Shape s = shape(Collective::all_reduce, DataType::float32, 1024, 2);
  EXPECT_EQ(shift_of(s, 4096, 0), 0u);
  EXPECT_EQ(shift_of(s, 4096, 3), 3072u);
  EXPECT_EQ(shift_of(s, 4096, 4), 0u);
  EXPECT_EQ(shift_of(s, 5000, 7), 3072u);
  EXPECT_EQ(shift_of(s, 1024, 5), 0u);
  EXPECT_EQ(shift_of(shape(Collective::all_reduce, DataType::float32, 0, 2), 4096, 5), 0u);
}

TEST(Shape, InPlaceEndsLieInTheReceiveBuffer) {
  char send[1], receive[1];
  const Shape gather = shape(Collective::all_gather, DataType::float32, 1024, 4);
  const Ends in = ends_of(gather, send, receive, 3, true, 1024);
  EXPECT_EQ(in.from - receive, 1024 + 3 * 256);
  EXPECT_EQ(in.to - receive, 1024);
  EXPECT_EQ(ends_of(gather, send, receive, 3, false, 8).from - send, 8);
}

// Whatever is received was sent: each expected element is the input of the rank that the collective takes it from.
TEST(Shape, EveryExpectedElementIsSomebodysInput) {
  using F = FormatOf<DataType::int32>;
  constexpr uint32_t kRanks = 3;
  for (Collective c : {Collective::all_gather, Collective::alltoall, Collective::alltoallv, Collective::gather,
                       Collective::scatter, Collective::broadcast, Collective::sendrecv}) {
    Case job;
    job.collective = c;
    job.type = DataType::int32;
    job.root = 2;
    const Shape s = shape(c, job.type, 960, kRanks);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      uint64_t received = 0;
      for (const auto& run : expected_runs(job, s, rank, kRanks, kByDistance, 5)) received += run.count * run.repeat;
      const bool receives = c != Collective::gather || rank == 2;
      EXPECT_EQ(received, receives ? s.receive : 0) << name_of(c);
      for (uint64_t i = 0; i < received; ++i) {
        const Place place = locate(expected_runs(job, s, rank, kRanks, kByDistance, 5), i);
        ASSERT_TRUE(place.found);
        const Pattern theirs = sent_pattern(job, place.pattern.source, kRanks, 5);
        ASSERT_EQ(expected_bits<F>(place.pattern, place.index),
                  input_bits<F>(theirs, place.pattern.first + place.index));
      }
    }
  }
  EXPECT_FALSE(locate({}, 0).found);
}

TEST(Shape, SpansJoinWhatLiesSideBySide) {
  EXPECT_TRUE(spans_of({}).empty());
  const auto spans = spans_of({{0, 10, 3, {}}, {30, 5, 1, {}}, {40, 2, 2, {}}});
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].from, 0u);
  EXPECT_EQ(spans[0].count, 35u);
  EXPECT_EQ(spans[1].from, 40u);
  EXPECT_EQ(spans[1].count, 4u);
}

TEST(Shape, OverlappingPlacementsAreNotChecked) {
  EXPECT_FALSE(is_checkable(Collective::alltoall, true));
  EXPECT_FALSE(is_checkable(Collective::sendrecv, true));
  EXPECT_TRUE(is_checkable(Collective::sendrecv, false));
  EXPECT_TRUE(is_checkable(Collective::reduce_scatter, true));
}

TEST(Shape, ValuesAreShownAsPeopleReadThem) {
  EXPECT_EQ(value_text(DataType::int8, 0xff), "-1");
  EXPECT_EQ(value_text(DataType::uint64, ~0ull), "18446744073709551615");
  EXPECT_EQ(value_text(DataType::float32, 0x3fc00000), "1.5 (0x3fc00000)");
  EXPECT_EQ(value_text(DataType::half, 0x7c00), "inf (0x7c00)");
  EXPECT_EQ(value_text(DataType::double64, 0xbff0000000000000u), "-1");
}

class TrafficFile : public testing::Test {
 protected:
  void write(const std::string& text) {
    path_ = testing::TempDir() + "traffic." + std::to_string(::getpid());
    std::ofstream(path_) << text;
    ::setenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", path_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
    ::unsetenv("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE");
    ::unsetenv("NCCL_TESTS_ALLTOALLV_SPREAD");
    ::unlink(path_.c_str());
  }
  std::string path_;
};

TEST_F(TrafficFile, IsReadScaledAndTrimmed) {
  write("100 200\n\n 50 1e3\n");
  ::setenv("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "2", 1);
  const Traffic traffic = read_traffic();
  EXPECT_EQ(traffic.bytes(0, 0, 2, 0), 192u);
  EXPECT_EQ(traffic.bytes(1, 1, 2, 0), 2000u);
  const Shape s = shape_of(Collective::alltoallv, DataType::float32, 4096, 2, traffic);
  EXPECT_EQ(s.count, 0u);
  EXPECT_EQ(s.bytes(), 2400u);  // column 1: 400 + 2000
}

TEST_F(TrafficFile, BadOnesAreRefusedByName) {
  for (const char* text : {"1 2\n3\n", "", "1 x\n2 3\n", "1 -2\n3 4\n", "1 2\n3 4nan\n"}) {
    write(text);
    EXPECT_THROW(read_traffic(), Failed) << text;
  }
  ::setenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "/nonexistent/matrix", 1);
  EXPECT_THROW(read_traffic(), Failed);
  ::unsetenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
  ::setenv("NCCL_TESTS_ALLTOALLV_SPREAD", "1.5", 1);
  EXPECT_THROW(read_traffic(), Failed);
}

}  // namespace
}  // namespace nccltune::worker
