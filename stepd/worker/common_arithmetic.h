// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the data types on the host, each result rounded to the type (to nearest, ties to even; integers wrap),
// as hardware and NCCL do it. The host worker reduces with it and the tests check the generator with it.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "worker/common_format.h"

namespace nccltune::worker {

// A double rounded to the type. Overflow gives infinity (E4M3: NaN).
template <class F>
inline typename F::Bits round_to(double value) {
  using Bits = typename F::Bits;
  if constexpr (F::kWidth == 64) {
    return std::bit_cast<uint64_t>(value);
  } else {
    constexpr bool kHasInfinity = !(F::kWidth == 8 && F::kPrecision == 4);
    constexpr Bits kAllExponent =
        static_cast<Bits>(((uint64_t(1) << (F::kWidth - F::kPrecision)) - 1) << (F::kPrecision - 1));
    constexpr Bits kNan = static_cast<Bits>(
        kAllExponent | (kHasInfinity ? Bits(1) << (F::kPrecision - 2) : (Bits(1) << (F::kPrecision - 1)) - 1));
    const uint64_t word = std::bit_cast<uint64_t>(value);
    const Bits sign = word >> 63 ? F::kSignBit : Bits(0);
    const int biased = static_cast<int>((word >> 52) & 0x7ff);
    if (biased == 0x7ff && (word << 12) != 0) return kNan;
    const Bits overflow = static_cast<Bits>(sign | (kHasInfinity ? kAllExponent : kNan));
    if (biased == 0x7ff) return overflow;
    const uint64_t whole = biased ? (word & ((uint64_t(1) << 52) - 1)) | (uint64_t(1) << 52) : 0;
    const int exponent = biased - 1023;
    int drop = 53 - F::kPrecision;
    if (exponent < F::kLeastNormal) drop += F::kLeastNormal - exponent;
    if (drop > 60) return sign;
    const uint64_t half = uint64_t(1) << (drop - 1), rest = whole & (2 * half - 1);
    uint64_t kept = whole >> drop;
    if (rest > half || (rest == half && (kept & 1))) ++kept;
    if (kept == 0) return sign;
    const int last = exponent - 52 + drop;
    constexpr int kGreatest = kHasInfinity ? F::kBias : F::kBias + 1;
    if (highest_bit(kept) + last > kGreatest) return overflow;
    const Bits bits = encode<F>(sign != 0, kept, last);
    if (!kHasInfinity && (bits & ~F::kSignBit) == kNan) return overflow;  // 480 would be NaN's pattern
    return bits;
  }
}

// a `op` b. avg adds (the division comes last), mulsum adds (the scalars come first).
template <class F>
inline typename F::Bits combine(Op op, typename F::Bits a, typename F::Bits b) {
  using Bits = typename F::Bits;
  if constexpr (F::kFloat) {
    const double x = decode<F>(a), y = decode<F>(b);
    if (op == Op::prod) return round_to<F>(x * y);
    if (op == Op::max) return x >= y ? a : b;
    if (op == Op::min) return x <= y ? a : b;
    return round_to<F>(x + y);
  } else {
    const Bits order = F::kSigned ? F::kSignBit : Bits(0);
    if (op == Op::prod) return static_cast<Bits>(static_cast<uint64_t>(a) * b);
    if (op == Op::max) return static_cast<Bits>(a ^ order) >= static_cast<Bits>(b ^ order) ? a : b;
    if (op == Op::min) return static_cast<Bits>(a ^ order) <= static_cast<Bits>(b ^ order) ? a : b;
    return static_cast<Bits>(static_cast<uint64_t>(a) + b);
  }
}

template <class F>
inline typename F::Bits multiply(typename F::Bits a, typename F::Bits b) {
  return combine<F>(Op::prod, a, b);
}

// A total divided by the rank count; integers towards zero.
template <class F>
inline typename F::Bits divide(typename F::Bits total, uint32_t ranks) {
  using Bits = typename F::Bits;
  if constexpr (F::kFloat) {
    return round_to<F>(decode<F>(total) / ranks);
  } else {
    if (!F::kSigned || !(total & F::kSignBit)) return static_cast<Bits>(total / ranks);
    return static_cast<Bits>(0 - static_cast<Bits>(0 - total) / ranks);
  }
}

}  // namespace nccltune::worker
