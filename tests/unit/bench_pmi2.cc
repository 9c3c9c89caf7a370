// SPDX-License-Identifier: Apache-2.0
// What goes through PMI-2, and what its servers say.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "bench/pmi2_text.h"
#include "bench/world.h"

namespace nccltune::bench {
namespace {

std::string bytes(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += static_cast<char>(static_cast<uint8_t>(i * 167 + i / 256));
  return text;
}

TEST(BenchPmi2, AnyBytesComeBack) {
  for (const size_t count : {0, 1, 2, 3, 4, 719, 720, 721, 1440, 1441, 5000, 100000}) {
    const auto pieces = to_pieces(bytes(count));
    EXPECT_EQ(pieces.size(), std::max<size_t>(1, (count + 719) / 720)) << count;
    for (const std::string& piece : pieces) {
      EXPECT_LT(piece.size(), 1024u);
      EXPECT_EQ(piece.find_first_of("=; \n"), std::string::npos);
    }
    EXPECT_EQ(pieces_of(pieces.front()), pieces.size());
    EXPECT_EQ(from_pieces(pieces), bytes(count)) << count;
  }
}

TEST(BenchPmi2, WhatIsNoneOfOurs) {
  auto pieces = to_pieces(bytes(2000));
  EXPECT_FALSE(from_pieces({}));
  EXPECT_FALSE(from_pieces({pieces[0], pieces[1]}));
  pieces[1][3] = ';';
  EXPECT_FALSE(from_pieces(pieces));
  for (const char* bad : {"", ".", "abc", "0.", "-1.", "1", "99999999999.", "x.AAAA"})
    EXPECT_FALSE(pieces_of(bad)) << bad;
}

TEST(BenchPmi2, NamesAreShortAndDiffer) {
  EXPECT_LT(piece_name(1 << 30, std::string(5000, 'k'), 1 << 20).size(), 64u);
  EXPECT_NE(piece_name(1, "record", 0), piece_name(2, "record", 0));
  EXPECT_NE(piece_name(1, "record", 0), piece_name(1, "record", 1));
  EXPECT_NE(piece_name(1, "record", 0), piece_name(1, "records", 0));
}

TEST(BenchPmi2, ProcessMappings) {
  using Nodes = std::vector<int>;
  EXPECT_EQ(read_process_mapping("(vector,(0,2,2))", 4), (Nodes{0, 0, 1, 1}));
  EXPECT_EQ(read_process_mapping("(vector,(0,2,1))", 4), (Nodes{0, 1, 0, 1}));          // cyclic: anew from the start
  EXPECT_EQ(read_process_mapping("(vector,(0,1,3),(1,1,1))", 4), (Nodes{0, 0, 0, 1}));  // plane, uneven
  EXPECT_EQ(read_process_mapping("(vector,(0,1,8))", 2), (Nodes{0, 0}));
  for (const char* bad :
       {"", "(vector,)", "(vector,())", "(vector,(0,1))", "(vector,(0,0,1))", "(vector,(0,1,0))", "(vector,(0,1,1)",
        "(vector,(0,1,1),)", "(vector,(0,1,-1))", "(vector,(a,1,1))", "0,1,1", "(vector,(0,1,1)(1,1,1)"})
    EXPECT_FALSE(read_process_mapping(bad, 2)) << bad;
}

TEST(BenchPmi2, ADescriptorThatIsNoSocketIsNoOffer) {
  EXPECT_FALSE(offers_pmi2({}));
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  EXPECT_FALSE(offers_pmi2({{"PMI_RANK", "0"}, {"PMI_FD", std::to_string(null)}}));
  EXPECT_TRUE(offers_pmi2({{"PMI_RANK", "0"}, {"PMI_FD", std::to_string(pair[0])}}));
  EXPECT_FALSE(offers_pmi2({{"PMI_FD", std::to_string(pair[0])}}));
  for (const int fd : {null, pair[0], pair[1]}) close(fd);
  EXPECT_FALSE(offers_pmi2({{"PMI_RANK", "0"}, {"PMI_FD", std::to_string(pair[0])}}));
  EXPECT_FALSE(offers_pmi2({{"PMI_RANK", "0"}, {"PMI_FD", "x"}}));
  EXPECT_FALSE(offers_world({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}));
  EXPECT_TRUE(offers_world({{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.1.0"}}));
}

}  // namespace
}  // namespace nccltune::bench
