// SPDX-License-Identifier: Apache-2.0
// The generator's promise: whatever the order of a reduction, the result has the bits that the closed form tells.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "worker/common_arithmetic.h"
#include "worker/common_data.h"

namespace nccltune::worker {
namespace {

constexpr Op kOps[] = {Op::sum, Op::prod, Op::max, Op::min, Op::avg, Op::mulsum};

template <class F>
std::vector<typename F::Bits> contributions(Pattern pattern, uint64_t element) {
  std::vector<typename F::Bits> values;
  for (uint32_t rank = 0; rank < pattern.reduction.ranks; ++rank) {
    pattern.source = rank;
    typename F::Bits bits = input_bits<F>(pattern, element);
    if (pattern.op == Op::mulsum) bits = multiply<F>(bits, scalar_bits<F>(rank));
    values.push_back(bits);
  }
  return values;
}

template <class F>
typename F::Bits in_sequence(Op op, const std::vector<typename F::Bits>& values) {
  typename F::Bits total = values[0];
  for (size_t i = 1; i < values.size(); ++i) total = combine<F>(op, total, values[i]);
  return total;
}

template <class F>
typename F::Bits as_tree(Op op, std::vector<typename F::Bits> values) {
  for (size_t width = values.size(); width > 1; width = (width + 1) / 2) {
    for (size_t i = 0; i < width / 2; ++i) values[i] = combine<F>(op, values[i], values[width - 1 - i]);
  }
  return values[0];
}

// As NCCL: integers divide the total, floats multiply each input by the rounded 1/ranks first.
template <class F>
typename F::Bits average(std::vector<typename F::Bits> values) {
  const uint32_t ranks = static_cast<uint32_t>(values.size());
  if constexpr (F::kFloat) {
    const typename F::Bits c = round_to<F>(1.0 / ranks);
    for (auto& v : values) v = multiply<F>(v, c);
    return in_sequence<F>(Op::sum, values);
  }
  return divide<F>(in_sequence<F>(Op::sum, values), ranks);
}

template <class F>
void check_orders(DataType type, Op op, uint32_t ranks, int elements) {
  std::mt19937 random(ranks);
  Pattern pattern;
  pattern.reduced = 1;
  pattern.op = op;
  pattern.reduction = make_reduction(type, op, 99, ranks);
  for (int i = 0; i < elements; ++i) {
    auto values = contributions<F>(pattern, static_cast<uint64_t>(i));
    const std::string where = "type " + std::to_string(static_cast<int>(type)) + " op " +
                              std::to_string(static_cast<int>(op)) + " ranks " + std::to_string(ranks) + " element " +
                              std::to_string(i);
    if (op == Op::avg) {
      ASSERT_TRUE(is_right<F>(pattern, i, average<F>(values))) << where;
      if (F::kFloat) {
        ASSERT_TRUE(is_right<F>(pattern, i, divide<F>(in_sequence<F>(Op::sum, values), ranks))) << where;
      }
    } else {
      const auto expected = expected_bits<F>(pattern, static_cast<uint64_t>(i));
      ASSERT_TRUE(is_right<F>(pattern, i, in_sequence<F>(op, values))) << where;
      ASSERT_EQ(as_tree<F>(op, values), expected) << where;
      std::shuffle(values.begin(), values.end(), random);
      ASSERT_EQ(in_sequence<F>(op, values), expected) << where;
      ASSERT_EQ(as_tree<F>(op, values), expected) << where;
    }
  }
}

class AnyOrder : public testing::TestWithParam<int> {};

TEST_P(AnyOrder, GivesTheSameBits) {
  const auto type = static_cast<DataType>(GetParam());
  for (uint32_t ranks : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 16u, 33u, 100u, 512u, 1000u, 2048u}) {
    const int elements = ranks <= 16 ? 200 : 20;
    for (Op op : kOps) {
      with_format(type, [&](auto format) { check_orders<decltype(format)>(type, op, ranks, elements); });
    }
  }
}
INSTANTIATE_TEST_SUITE_P(EachType, AnyOrder, testing::Range(0, kDataTypes));

// Rough input is what exact input is not: another order rounds otherwise, in elements enough to be seen in any message.
template <class F>
int elements_that_tell_orders(DataType type, Op op, uint32_t ranks) {
  int differing = 0;
  Pattern pattern;
  pattern.reduced = pattern.rough = 1;
  pattern.op = op;
  pattern.reduction = make_reduction(type, op, 17, ranks);
  for (uint64_t element = 0; element < 1000; ++element) {
    const auto values = contributions<F>(pattern, element);
    for (const auto bits : values) {
      EXPECT_TRUE(std::isnormal(decode<F>(bits)));
      EXPECT_LE(std::fabs(decode<F>(bits)), 4) << "a scalar of mulsum doubles at most";
    }
    const auto total = in_sequence<F>(op, values);
    EXPECT_TRUE(op == Op::prod || std::isfinite(decode<F>(total)));
    differing += total != as_tree<F>(op, values);
  }
  return differing;
}

TEST(Data, RoughInputTellsOneOrderFromAnother) {
  for (const DataType type :
       {DataType::half, DataType::float32, DataType::double64, DataType::bfloat16, DataType::f8e4m3, DataType::f8e5m2})
    with_format(type, [&](auto format) {
      using F = decltype(format);
      if constexpr (F::kFloat) {
        for (const Op op : {Op::sum, Op::prod, Op::mulsum})
          for (const uint32_t ranks : {3u, 8u, 64u}) {
            EXPECT_GT((elements_that_tell_orders<F>(type, op, ranks)), 30)
                << static_cast<int>(type) << " " << static_cast<int>(op) << " " << ranks;
          }
      }
    });
}

// A rank whose part is lost, or taken twice in place of its neighbour's, must show somewhere in a modest buffer.
TEST(Data, AMissingOrDoubledRankShows) {
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    for (Op op : {Op::sum, Op::prod, Op::max, Op::min, Op::mulsum}) {
      with_format(type, [&](auto format) {
        using F = decltype(format);
        constexpr uint32_t kRanks = 6;
        Pattern pattern;
        pattern.reduced = 1;
        pattern.op = op;
        pattern.reduction = make_reduction(type, op, 7, kRanks);
        for (uint32_t lost = 0; lost < kRanks; ++lost) {
          int missing = 0, doubled = 0;
          for (uint64_t i = 0; i < 1024; ++i) {
            auto values = contributions<F>(pattern, i);
            values[lost] = values[(lost + 1) % kRanks];
            doubled += in_sequence<F>(op, values) != expected_bits<F>(pattern, i);
            values.erase(values.begin() + lost);
            missing += in_sequence<F>(op, values) != expected_bits<F>(pattern, i);
          }
          EXPECT_GT(missing, 40) << "type " << t << " op " << static_cast<int>(op) << " rank " << lost;
          EXPECT_GT(doubled, 40) << "type " << t << " op " << static_cast<int>(op) << " rank " << lost;
        }
      });
    }
  }
}

TEST(Data, EveryFlippedBitIsWrong) {
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    for (Op op : {Op::sum, Op::prod, Op::max, Op::min, Op::mulsum, Op::none}) {
      with_format(type, [&](auto format) {
        using F = decltype(format);
        Pattern pattern;
        pattern.reduced = op != Op::none;
        pattern.op = op;
        pattern.reduction = make_reduction(type, op, 3, 4);
        for (uint64_t i : {uint64_t(0), uint64_t(511), uint64_t(1023)}) {
          const auto right = expected_bits<F>(pattern, i);
          for (int bit = 0; bit < F::kWidth; ++bit) {
            EXPECT_FALSE(is_right<F>(pattern, i, static_cast<typename F::Bits>(right ^ (uint64_t(1) << bit))));
          }
        }
      });
    }
  }
}

TEST(Data, TheAverageBoundIsATightOne) {
  const Reduction three = make_reduction(DataType::float32, Op::avg, 1, 3);
  EXPECT_FALSE(three.exact_average);
  EXPECT_LT(three.bound, 4 * std::ldexp(1.0, -24));
  EXPECT_TRUE(make_reduction(DataType::half, Op::avg, 1, 2048).exact_average);
  EXPECT_TRUE(make_reduction(DataType::f8e4m3, Op::avg, 1, 512).exact_average);
  EXPECT_FALSE(make_reduction(DataType::f8e4m3, Op::avg, 1, 1024).exact_average);  // 2^-10 is no E4M3 number
}

TEST(Data, CopiesAreFiniteAndDifferByRankAndPlace) {
  for (int t = 0; t < kDataTypes; ++t) {
    with_format(static_cast<DataType>(t), [&](auto format) {
      using F = decltype(format);
      Pattern a, b, later;
      b.source = 1;
      later.first = 1;
      int same_rank = 0, same_place = 0;
      for (uint64_t i = 0; i < 512; ++i) {
        EXPECT_TRUE(std::isfinite(decode<F>(input_bits<F>(a, i))));
        same_rank += input_bits<F>(a, i) == input_bits<F>(b, i);
        same_place += input_bits<F>(a, i) == input_bits<F>(a, i + 1);
        EXPECT_EQ(input_bits<F>(a, i + 1), input_bits<F>(later, i));
      }
      EXPECT_LT(same_rank, 32);
      EXPECT_LT(same_place, 32);
    });
  }
}

TEST(Format, RoundsAsTheTypesDo) {
  using Half = FormatOf<DataType::half>;
  using E4M3 = FormatOf<DataType::f8e4m3>;
  using E5M2 = FormatOf<DataType::f8e5m2>;
  using BF16 = FormatOf<DataType::bfloat16>;
  EXPECT_EQ(round_to<Half>(1.0), 0x3c00);
  EXPECT_EQ(round_to<Half>(65519.0), 0x7bff);
  EXPECT_EQ(round_to<Half>(65520.0), 0x7c00);
  EXPECT_EQ(round_to<Half>(std::ldexp(1.0, -25)), 0);  // tie to even
  EXPECT_EQ(round_to<Half>(std::ldexp(1.5, -25)), 1);
  EXPECT_EQ(round_to<Half>(std::ldexp(1.0, -14)), 0x0400);
  EXPECT_EQ(round_to<E4M3>(448.0), 0x7e);
  EXPECT_EQ(round_to<E4M3>(480.0), 0x7f);
  EXPECT_EQ(round_to<E4M3>(-1.125), 0xb9);
  EXPECT_EQ(round_to<E5M2>(57344.0), 0x7b);
  EXPECT_EQ(round_to<BF16>(1.00390625), 0x3f80);  // tie to even
  EXPECT_EQ(round_to<BF16>(1.01171875), 0x3f82);
  for (int bits = 0; bits < 65536; ++bits) {
    const double value = decode<Half>(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(round_to<Half>(value), bits);
    }
  }
  for (int bits = 0; bits < 256; ++bits) {
    const double value = decode<E4M3>(static_cast<uint8_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(round_to<E4M3>(value), bits);
    }
  }
}

}  // namespace
}  // namespace nccltune::worker
