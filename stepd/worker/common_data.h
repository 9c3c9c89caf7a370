// SPDX-License-Identifier: Apache-2.0
// What the ranks put into a collective and what must come out, as pure functions of (seed, element, rank, ranks), one
// source for host and device. The result of a reduction has a closed form: no rank is asked, no loop over ranks, no
// third buffer.
//
// Exactness. Inputs of one element are whole multiples of one unit. They are parts of two totals, P of one sign and
// N of the other, P < 2^precision and N <= P/2, so the sum over any subset of the ranks has a magnitude below
// 2^precision units and is representable: each partial sum of any order, tree, ring or switch is exact, and so is an
// accumulator that is wider than the type. This holds for every rank count up to 65536; what shrinks for small
// types is the number of ranks with a non-zero part of an element (fp8 E5M2: 4 + 1), and a permutation that changes
// from element to element gives every rank its turn. Totals are split at random points, so two ranks rarely hold the
// same part and a rank that is counted twice in place of another shows.
//   sum     as above; integers instead use the whole width and wrap (parts are differences of random words)
//   mulsum  the scalar of a rank is +-1/2, +-1, +-2 (integers: odd), the input is part / scalar: exact
//   prod    one rank holds a random significand, all hold signs and powers of two whose sums stay inside the exponent
//           range; integers: quotients of random odd words, wrapping
//   max,min one rank holds the winner, the others values that are no better
//   avg     integers: parts of totals that fit the type, so that no sum wraps, then division towards zero as NCCL does;
//           floats: exact where 1/ranks is a power of two that the type holds; else two ranks are non-zero and
//           average_bound() gives the error that the roundings allow
// Copies (all_gather, broadcast, ...) carry random bits, finite for the floating types.
//
// Rough input is for runs that are compared with each other: random significands, signs and exponents, so that partial
// results round and another order of the operations gives other bits, which exact input would hide.
#pragma once

#include <algorithm>
#include <cstdint>

#include "worker/common_format.h"

namespace nccltune::worker {

inline constexpr uint32_t kMostRanks = 65536;  // rank * stride stays below 2^32

// Constant over the elements of one operation. Made by make_reduction().
struct Reduction {
  uint64_t seed = 0;
  uint32_t ranks = 1;
  uint32_t positive = 1, negative = 0;  // ranks that hold parts of P and of N
  uint32_t stride[4] = {0, 0, 0, 0};    // coprime to ranks: slot = rank * stride + offset permutes them
  int32_t unit = 0;                     // least power of two of the unit
  uint32_t exact_average = 0;
  double bound = 0;  // average_bound(): relative
  double bound_absolute = 0;
};

// What a run of elements holds.
struct Pattern {
  uint32_t reduced = 0;  // 1: `reduction` and `op` tell; 0: a copy of `source`'s data
  Op op = Op::sum;
  uint32_t rough = 0;   // 1: input whose reduction depends on the order of the operations; has no expected result
  uint32_t source = 0;  // the rank whose input this is
  uint64_t first = 0;   // index of the run's first element in the source's data
  Reduction reduction;  // its seed serves copies too
};

// Finaliser of splitmix64 (Steele, Lea, Flood 2014): each input bit reaches each output bit.
NCCLTUNE_BOTH uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
NCCLTUNE_BOTH uint64_t mix(uint64_t seed, uint64_t index) { return mix(seed + (index + 1) * 0x9e3779b97f4a7c15u); }

namespace data {

// Uniform in [0, n), from the high bits of a random word.
NCCLTUNE_BOTH uint64_t scale(uint64_t random, uint64_t n) { return multiply_high(random, n); }

// Total up to part `j` of `parts`; part j is cut(j + 1) - cut(j) >= 0 and all parts add up to `total`.
NCCLTUNE_BOTH uint64_t cut(uint64_t key, uint32_t j, uint32_t parts, uint64_t total) {
  if (j == 0) return 0;
  if (j == parts) return total;
  const uint64_t share = total / parts;
  return j * share + scale(mix(key, j), share + 1);
}
NCCLTUNE_BOTH uint64_t part(uint64_t key, uint32_t j, uint32_t parts, uint64_t total) {
  return cut(key, j + 1, parts, total) - cut(key, j, parts, total);
}

// A place among the ranks, another permutation for each element.
NCCLTUNE_BOTH uint32_t slot_of(const Reduction& r, uint64_t key, uint32_t rank) {
  const uint32_t offset = static_cast<uint32_t>(((key >> 32) * r.ranks) >> 32);
  return (rank * r.stride[key & 3] + offset) % r.ranks;
}

// The two totals of an element, and its common sign and unit. `Digits`: the bits that P may have.
struct Totals {
  uint64_t plus, minus;
  bool flip;
  int unit;
};
template <int Digits>
NCCLTUNE_BOTH Totals totals(const Reduction& r, uint64_t key) {
  constexpr uint64_t kHalf = uint64_t(1) << (Digits - 1);
  constexpr uint64_t kEighth = uint64_t(1) << (Digits - 3);
  const uint64_t other = mix(key ^ 0x5851f42d4c957f2du);
  Totals t;
  t.plus = kHalf + (key & (kHalf - 1));
  t.minus = r.negative ? kEighth + ((other >> 8) & (kEighth - 1)) : 0;
  t.flip = (other & 1) != 0;
  t.unit = r.unit + static_cast<int>((other >> 1) & 3);
  return t;
}

struct Signed {
  uint64_t magnitude;
  bool negative;
};
NCCLTUNE_BOTH Signed part_of(const Reduction& r, const Totals& t, uint64_t key, uint32_t slot) {
  if (slot < r.positive) return {part(key, slot, r.positive, t.plus), t.flip};
  slot -= r.positive;
  if (slot < r.negative) return {part(~key, slot, r.negative, t.minus), !t.flip};
  return {0, false};
}

// Bits of a total that integers may have without a sum leaving the type.
template <class F>
NCCLTUNE_BOTH constexpr int digits() {
  return F::kFloat ? F::kPrecision : F::kSigned ? F::kWidth - 1 : F::kWidth;
}

template <class F>
NCCLTUNE_BOTH typename F::Bits inverse_of_odd(typename F::Bits x) {
  uint64_t y = x;  // right to 3 bits; each step of Newton's doubles them: 6, 12, 24, 48, 96
  for (int i = 0; i < 5; ++i) y *= 2 - x * y;
  return static_cast<typename F::Bits>(y);
}

// --- sum, mulsum and avg ---
template <class F>
NCCLTUNE_BOTH typename F::Bits wrapped(uint64_t key, uint32_t slot) {  // integers: running total up to a slot
  return slot == 0 ? 0 : static_cast<typename F::Bits>(mix(key, slot));
}

// The scalar of a rank for mulsum: a power of two (its exponent) and a sign; an odd number for integers.
NCCLTUNE_BOTH int scalar_exponent(uint32_t rank) { return static_cast<int>(rank % 3) - 1; }
NCCLTUNE_BOTH bool scalar_negative(uint32_t rank) { return (rank / 3) % 2 != 0; }
NCCLTUNE_BOTH uint32_t scalar_odd(uint32_t rank) { return 3 + 2 * (rank % 7); }

template <class F>
NCCLTUNE_BOTH typename F::Bits sum_input(const Pattern& p, uint64_t key) {
  const Reduction& r = p.reduction;
  const uint32_t slot = slot_of(r, key, p.source);
  if constexpr (F::kFloat) {
    const Totals t = totals<F::kPrecision>(r, key);
    const Signed s = part_of(r, t, key, slot);
    if (p.op != Op::mulsum) return encode<F>(s.negative, s.magnitude, t.unit);
    return encode<F>(s.negative != scalar_negative(p.source), s.magnitude, t.unit - scalar_exponent(p.source));
  } else {
    using Bits = typename F::Bits;
    if (p.op == Op::avg) {
      const Signed s = part_of(r, totals<digits<F>()>(r, key), key, slot);
      return static_cast<Bits>(F::kSigned && s.negative ? 0 - s.magnitude : s.magnitude);
    }
    const uint64_t x = static_cast<uint64_t>(wrapped<F>(key, slot + 1)) - wrapped<F>(key, slot);
    if (p.op != Op::mulsum) return static_cast<Bits>(x);
    return static_cast<Bits>(x * inverse_of_odd<F>(static_cast<Bits>(scalar_odd(p.source))));
  }
}

// Integers: the average's total, as two's complement in 64 bits.
template <class F>
NCCLTUNE_BOTH uint64_t integer_total(const Reduction& r, uint64_t key) {
  const Totals t = totals<digits<F>()>(r, key);
  const uint64_t total = t.plus - t.minus;
  return F::kSigned && t.flip ? 0 - total : total;
}

template <class F>
NCCLTUNE_BOTH typename F::Bits sum_result(const Pattern& p, uint64_t key) {
  using Bits = typename F::Bits;
  const Reduction& r = p.reduction;
  if constexpr (F::kFloat) {
    const Totals t = totals<F::kPrecision>(r, key);
    const int shift = p.op == Op::avg ? highest_bit(r.ranks) : 0;  // right where the average is exact
    return encode<F>(t.flip, t.plus - t.minus, t.unit - shift);
  } else {
    if (p.op != Op::avg) return wrapped<F>(key, r.ranks);
    const uint64_t total = integer_total<F>(r, key);
    if (!F::kSigned || !(total >> 63)) return static_cast<Bits>(total / r.ranks);
    return static_cast<Bits>(0 - (0 - total) / r.ranks);
  }
}

// --- prod ---
// Most that exponents may add up to in either direction: a significand in [1, 2) times such powers stays normal.
template <class F>
NCCLTUNE_BOTH constexpr uint32_t exponent_budget() {
  return F::kBias < 10 ? 3 : F::kBias < 100 ? 6 : F::kBias < 1000 ? 50 : 400;
}
template <class F>
NCCLTUNE_BOTH uint32_t factors(const Reduction& r, bool growing) {
  const uint32_t shrink = r.ranks / 2 < exponent_budget<F>() ? r.ranks / 2 : exponent_budget<F>();
  if (!growing) return shrink;
  return r.ranks - shrink < exponent_budget<F>() ? r.ranks - shrink : exponent_budget<F>();
}
template <class F>
NCCLTUNE_BOTH int exponent_total(uint64_t key, bool growing) {
  return static_cast<int>(scale(mix(key, growing ? 71 : 72), exponent_budget<F>() + 1));
}
NCCLTUNE_BOTH bool sign_before(uint64_t key, uint32_t slot) { return slot != 0 && (mix(key, slot) & 1); }
template <class F>
NCCLTUNE_BOTH uint64_t significand(uint64_t key) {
  constexpr uint64_t kTop = uint64_t(1) << (F::kPrecision - 1);
  return kTop | (key & (kTop - 1));
}
template <class F>
NCCLTUNE_BOTH typename F::Bits odd_before(uint64_t key, uint32_t slot) {
  return slot == 0 ? 1 : static_cast<typename F::Bits>(mix(key, slot) | 1);
}

template <class F>
NCCLTUNE_BOTH typename F::Bits product_input(const Pattern& p, uint64_t key) {
  const uint32_t slot = slot_of(p.reduction, key, p.source);
  if constexpr (F::kFloat) {
    const uint32_t grow = factors<F>(p.reduction, true), shrink = factors<F>(p.reduction, false);
    int exponent = 0;
    if (slot < grow) {
      exponent = static_cast<int>(part(key, slot, grow, exponent_total<F>(key, true)));
    } else if (slot - grow < shrink) {
      exponent = -static_cast<int>(part(~key, slot - grow, shrink, exponent_total<F>(key, false)));
    }
    const uint64_t m = slot == 0 ? significand<F>(key) : uint64_t(1) << (F::kPrecision - 1);
    return encode<F>(sign_before(key, slot) != sign_before(key, slot + 1), m, exponent - (F::kPrecision - 1));
  } else {
    using Bits = typename F::Bits;
    const uint64_t x =
        static_cast<uint64_t>(odd_before<F>(key, slot + 1)) * inverse_of_odd<F>(odd_before<F>(key, slot));
    return static_cast<Bits>(slot == 0 ? x * (1 + (key & 3)) : x);
  }
}
template <class F>
NCCLTUNE_BOTH typename F::Bits product_result(const Pattern& p, uint64_t key) {
  const uint32_t ranks = p.reduction.ranks;
  if constexpr (F::kFloat) {
    const int shrink = factors<F>(p.reduction, false) ? exponent_total<F>(key, false) : 0;
    const int exponent = exponent_total<F>(key, true) - shrink;
    return encode<F>(sign_before(key, ranks), significand<F>(key), exponent - (F::kPrecision - 1));
  } else {
    return static_cast<typename F::Bits>(static_cast<uint64_t>(odd_before<F>(key, ranks)) * (1 + (key & 3)));
  }
}

// --- max and min: values in order are codes 0, 1, 2, ...
template <class F>
NCCLTUNE_BOTH uint64_t codes_less_one() {
  return F::kFloat ? (uint64_t(2) << F::kPrecision) - 1 : ~uint64_t(0) >> (64 - F::kWidth);
}
template <class F>
NCCLTUNE_BOTH typename F::Bits value_of_code(const Reduction& r, uint64_t key, uint64_t code) {
  if constexpr (F::kFloat) {
    constexpr uint64_t kZero = uint64_t(1) << F::kPrecision;
    const int unit = r.unit + static_cast<int>(key >> 62);
    return code < kZero ? encode<F>(true, kZero - code, unit) : encode<F>(false, code - kZero, unit);
  } else {
    return static_cast<typename F::Bits>(F::kSigned ? code ^ F::kSignBit : code);
  }
}
template <class F>
NCCLTUNE_BOTH typename F::Bits extreme_result(const Pattern& p, uint64_t key) {
  return value_of_code<F>(p.reduction, key, mix(key) & codes_less_one<F>());
}
template <class F>
NCCLTUNE_BOTH typename F::Bits extreme_input(const Pattern& p, uint64_t key) {
  const uint64_t winner = mix(key) & codes_less_one<F>();
  if (slot_of(p.reduction, key, p.source) == 0) return value_of_code<F>(p.reduction, key, winner);
  // One more than 64 bits hold comes out as 0: then scale() gives 0, which is as good a loser.
  const uint64_t random = mix(key, p.source + 1);
  const uint64_t code =
      p.op == Op::max ? scale(random, winner + 1) : winner + scale(random, codes_less_one<F>() - winner + 1);
  return value_of_code<F>(p.reduction, key, code);
}

// --- copies: one random word for 8 bytes
template <class F>
NCCLTUNE_BOTH typename F::Bits copied(const Pattern& p, uint64_t index) {
  constexpr uint64_t kLanes = 8 / sizeof(typename F::Bits);
  const uint64_t word = mix(p.reduction.seed ^ (uint64_t(p.source + 1) << 40), index / kLanes);
  uint64_t bits = word >> (index % kLanes * F::kWidth);
  if constexpr (F::kFloat) bits &= ~(uint64_t(1) << (F::kWidth - 2));  // top bit of the exponent: finite, below 2
  return static_cast<typename F::Bits>(bits);
}

// --- rough
// Magnitudes in [1/32, 2): normal in every type, and a sum of 2048 ranks' stays far from the largest half. Products add
// exponents up: there in [1/2, 2), below 1 as much more often than above as log2 of a random significand, 0.557 in the
// mean, is above 1/2.
template <class F>
NCCLTUNE_BOTH typename F::Bits rough(const Pattern& p, uint64_t index) {
  const uint64_t word = mix(p.reduction.seed ^ (uint64_t(p.source + 1) << 40), index);
  if constexpr (F::kFloat) {
    const uint64_t random = mix(word);
    const int exponent =
        p.op == Op::prod ? -static_cast<int>(scale(random, 1000) < 557) : -static_cast<int>(scale(random, 6));
    return encode<F>((random & 1) != 0, significand<F>(word), exponent - (F::kPrecision - 1));
  } else {
    return static_cast<typename F::Bits>(word);
  }
}

}  // namespace data

// What rank `p.source` puts in at element `i` of the run.
template <class F>
NCCLTUNE_BOTH typename F::Bits input_bits(const Pattern& p, uint64_t i) {
  if (!p.reduced) return data::copied<F>(p, p.first + i);
  if (p.rough) return data::rough<F>(p, p.first + i);
  const uint64_t key = mix(p.reduction.seed, p.first + i);
  if (p.op == Op::prod) return data::product_input<F>(p, key);
  if (p.op == Op::max || p.op == Op::min) return data::extreme_input<F>(p, key);
  return data::sum_input<F>(p, key);
}

// What must come out at element `i` of the run; for an average that is not exact, the mean cut to the type.
template <class F>
NCCLTUNE_BOTH typename F::Bits expected_bits(const Pattern& p, uint64_t i) {
  if (!p.reduced) return data::copied<F>(p, p.first + i);
  const uint64_t key = mix(p.reduction.seed, p.first + i);
  if (p.op == Op::prod) return data::product_result<F>(p, key);
  if (p.op == Op::max || p.op == Op::min) return data::extreme_result<F>(p, key);
  return data::sum_result<F>(p, key);
}

// The mean of an element whose average is not exact.
template <class F>
NCCLTUNE_BOTH double mean_of(const Pattern& p, uint64_t i) {
  const data::Totals t = data::totals<data::digits<F>()>(p.reduction, mix(p.reduction.seed, p.first + i));
  const double mean = ldexp(static_cast<double>(t.plus - t.minus), t.unit) / p.reduction.ranks;
  return t.flip ? -mean : mean;
}

template <class F>
NCCLTUNE_BOTH bool is_right(const Pattern& p, uint64_t i, typename F::Bits found) {
  if constexpr (F::kFloat) {
    if (p.reduced && p.op == Op::avg && !p.reduction.exact_average) {
      const double mean = mean_of<F>(p, i);
      return fabs(decode<F>(found) - mean) <=
             fabs(mean) * p.reduction.bound + p.reduction.bound_absolute;  // NaN: false
    }
  }
  return expected_bits<F>(p, i) == found;
}

// Error that an average may have when 1/ranks is not exact. NCCL multiplies each input by c, 1/ranks rounded to the
// type, and adds; others add and then divide or multiply. Two inputs are non-zero and their sum is exact, so with e =
// 2^-precision the result is mean * (1 + d)(1 + e)(1 + e), d the relative error of c: e, or ranks * least / 2 where c
// is subnormal (fp8 E4M3 from 65 ranks on; from 1024 on c may be 0, NCCL then gives 0, and the bound allows it). Each
// of three results may lose half the least number when subnormal. 2^-51 covers the double arithmetic of the comparison.
template <class F>
inline void average_bound(Reduction& r) {
  const double e = std::ldexp(1.0, -F::kPrecision);
  const double c = 1.0 / r.ranks;
  const double least = std::ldexp(1.0, F::kLeast);
  const double d = c < std::ldexp(1.0, F::kLeastNormal) ? std::fmax(e, least / 2 / c) : e;
  r.bound = (1 + d) * (1 + e) * (1 + e) - 1 + std::ldexp(1.0, -51);
  r.bound_absolute = 1.5 * least;
}

// ranks in [1, kMostRanks].
inline Reduction make_reduction(DataType type, Op op, uint64_t seed, uint32_t ranks) {
  // Primes above kMostRanks are coprime to every rank count.
  constexpr uint64_t kPrimes[4] = {65537, 65543, 65551, 65557};
  Reduction r;
  r.seed = mix(seed + 1);
  r.ranks = ranks;
  for (int i = 0; i < 4; ++i) r.stride[i] = static_cast<uint32_t>(kPrimes[i] % ranks);
  with_format(type, [&](auto format) {
    using F = decltype(format);
    constexpr int kDigits = data::digits<F>();
    const auto most = [](int bits) { return bits > 17 ? kMostRanks : uint32_t(1) << bits; };
    const bool unsigned_average = !F::kSigned && op == Op::avg;
    r.negative = unsigned_average ? 0 : std::min(ranks / 2, most(kDigits - 3));
    r.positive = std::min(ranks - r.negative, most(kDigits - 1));
    if constexpr (F::kFloat) {
      r.unit = -F::kPrecision;
      if (op != Op::avg) return;
      // Room below for the division: the mean of 15 units of 2^0 over 512 ranks is still whole in E4M3.
      if (F::kBias < 100) r.unit = F::kPrecision < 8 ? 0 : -8;
      const bool power_of_two = (ranks & (ranks - 1)) == 0;
      r.exact_average = power_of_two && highest_bit(ranks) <= -F::kLeast && highest_bit(ranks) <= r.unit - F::kLeast;
      if (r.exact_average) return;
      r.positive = std::min(ranks, 2u);
      r.negative = 0;
      average_bound<F>(r);
    }
  });
  return r;
}

// The bits of a rank's scalar for mulsum, in the type's format.
template <class F>
inline typename F::Bits scalar_bits(uint32_t rank) {
  if constexpr (F::kFloat) {
    return encode<F>(data::scalar_negative(rank), 1, data::scalar_exponent(rank));
  } else {
    return static_cast<typename F::Bits>(data::scalar_odd(rank));
  }
}

}  // namespace nccltune::worker
