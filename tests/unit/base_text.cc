// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>

#include "base/cpuset.h"
#include "base/result.h"
#include "base/text.h"

namespace nccltune {
namespace {

TEST(Text, SplitKeepsEmptyPartsAndWordsDoNot) {
  EXPECT_EQ(split("a,,b", ',').size(), 3u);
  EXPECT_EQ(split("", ',').size(), 1u);
  EXPECT_EQ(split_words("  a\t b \n").size(), 2u);
  EXPECT_EQ(split_lines("a\n\nb\n").size(), 3u);
  EXPECT_EQ(trim(" \t a b \n"), "a b");
  EXPECT_EQ(first_line("mlx5_0  \nmore"), "mlx5_0");
}

TEST(Text, IntegersAreWholeAndInRange) {
  EXPECT_EQ(parse_int("-1", -1, 10), -1);
  EXPECT_EQ(parse_int("+7", 0, 10), 7);
  for (const char* bad : {"", " 1", "1 ", "0x1", "1.0", "11", "+-1", "18446744073709551615"})
    EXPECT_FALSE(parse_int(bad, 0, 10)) << bad;
  EXPECT_EQ(parse_hex("0x030200"), 0x030200u);
  EXPECT_FALSE(parse_hex("0x"));
  EXPECT_FALSE(parse_hex("12345678123456781"));
}

TEST(Text, SizesAreBinaryInEitherCase) {
  EXPECT_EQ(parse_size("512"), 512u);
  EXPECT_EQ(parse_size("8M"), 8u << 20);
  EXPECT_EQ(parse_size("8g"), uint64_t{8} << 30);
  EXPECT_EQ(parse_size("64KiB"), 65536u);
  EXPECT_EQ(parse_size("1.5G"), (uint64_t{3} << 30) / 2);
  for (const char* bad : {"", "M", "8X", "8MM", "-1", "1.5", "1.", "9223372036854775808", "9999999999T", "8 M"})
    EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(Text, GlobsMatchTheWholeText) {
  EXPECT_TRUE(glob_match("p5*", "p5.48xlarge"));
  EXPECT_TRUE(glob_match("10de:23[0-3]?", "10de:2330"));
  EXPECT_TRUE(glob_match("*a*b", "xaab"));
  EXPECT_TRUE(glob_match("[!a]c", "bc"));
  EXPECT_TRUE(glob_match("[", "["));
  EXPECT_TRUE(glob_match("\\*", "*"));
  EXPECT_FALSE(glob_match("p5", "p5e"));
  EXPECT_FALSE(glob_match("[!a]c", "ac"));
  EXPECT_FALSE(glob_match("\\*", "x"));
  // Exponential in a naive matcher.
  EXPECT_FALSE(glob_match("*a*a*a*a*a*a*a*a*a*a*a*ab", std::string(20000, 'a')));
}

TEST(Text, NearestWord) {
  const std::vector<std::string> known = {"exclude_hcas", "fabric_subnet", "bind"};
  EXPECT_EQ(nearest_word("exclud_hcas", known), "exclude_hcas");
  EXPECT_EQ(nearest_word("bnid", known), "bind");
  EXPECT_EQ(nearest_word("profile", known), "");
  EXPECT_EQ(edit_distance("", "abc"), 3u);
}

TEST(Error, IsOneLine) {
  const Error error{"a\nb", "cannot open", "No such file", "name another"};
  EXPECT_EQ(error.text(), "a b: cannot open: No such file; name another");
  EXPECT_EQ((Error{"", "wrong", "", ""}.text()), "wrong");
}

TEST(CpuSet, ListsRoundTrip) {
  for (const char* list : {"", "0", "0-3,8", "0-63,128-191", "8-87", "65535"})
    EXPECT_EQ(CpuSet::from_list(list)->list(), list);
  EXPECT_EQ(CpuSet::from_list("16-31:2\n")->count(), 8);
  EXPECT_EQ(CpuSet::from_list("3,1-2,2")->list(), "1-3");
  for (const char* bad : {"a", "1-", "-1", "3-1", "1,,2", "65536", "0-3:0", "1 2"})
    EXPECT_FALSE(CpuSet::from_list(bad)) << bad;
}

TEST(CpuSet, MasksAreMostSignificantFirst) {
  EXPECT_EQ(CpuSet::from_mask("00000001,0000000f")->list(), "0-3,32");
  EXPECT_EQ(CpuSet::from_mask("0xff")->list(), "0-7");
  EXPECT_EQ(CpuSet::from_mask("1,00000000")->list(), "32");
  for (const char* bad : {"", "0x", "g", ",1", "1,", "123456789,00000000,000000001"})
    EXPECT_FALSE(CpuSet::from_mask(bad)) << bad;
}

TEST(CpuSet, SetsOfOneContentAreEqualWhateverTheirPast) {
  CpuSet a = *CpuSet::from_list("0-3,500"), b = *CpuSet::from_list("0-3");
  a.remove(500);
  EXPECT_EQ(a, b);
  EXPECT_EQ((a - b).first(), -1);
  EXPECT_TRUE((a & *CpuSet::from_list("9")).empty());
  EXPECT_TRUE(b.is_subset_of(b | *CpuSet::from_list("9")));
  a.add(-1);
  a.add(CpuSet::kMaxId + 1);
  EXPECT_EQ(a.count(), 4);
}

}  // namespace
}  // namespace nccltune
