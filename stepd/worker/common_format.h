// SPDX-License-Identifier: Apache-2.0
// Data types as bit patterns: integer arithmetic only, so that host and device give the same bits for every type,
// also for those that a compiler or a CUDA header does not know.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/protocol.h"

#ifdef __CUDACC__
#define NCCLTUNE_BOTH __host__ __device__ inline
#else
#define NCCLTUNE_BOTH inline
#endif

namespace nccltune::worker {

using protocol::DataType;
using protocol::Op;

// kPrecision counts the significand's bits with the implicit one; kBias is the exponent's. For integers kPrecision is
// 0.
template <class B, int Precision, int Bias, bool Signed>
struct Format {
  using Bits = B;
  static constexpr int kWidth = 8 * static_cast<int>(sizeof(B));
  static constexpr int kPrecision = Precision;
  static constexpr int kBias = Bias;
  static constexpr bool kFloat = Precision > 0;
  static constexpr bool kSigned = Signed;
  static constexpr B kSignBit = static_cast<B>(B(1) << (kWidth - 1));
  // Power of two of the smallest normal and of the smallest subnormal number.
  static constexpr int kLeastNormal = 1 - Bias;
  static constexpr int kLeast = 1 - Bias - (Precision - 1);
};

template <DataType T>
struct FormatOf;
template <>
struct FormatOf<DataType::int8> : Format<uint8_t, 0, 0, true> {};
template <>
struct FormatOf<DataType::uint8> : Format<uint8_t, 0, 0, false> {};
template <>
struct FormatOf<DataType::int32> : Format<uint32_t, 0, 0, true> {};
template <>
struct FormatOf<DataType::uint32> : Format<uint32_t, 0, 0, false> {};
template <>
struct FormatOf<DataType::int64> : Format<uint64_t, 0, 0, true> {};
template <>
struct FormatOf<DataType::uint64> : Format<uint64_t, 0, 0, false> {};
template <>
struct FormatOf<DataType::half> : Format<uint16_t, 11, 15, true> {};
template <>
struct FormatOf<DataType::float32> : Format<uint32_t, 24, 127, true> {};
template <>
struct FormatOf<DataType::double64> : Format<uint64_t, 53, 1023, true> {};
template <>
struct FormatOf<DataType::bfloat16> : Format<uint16_t, 8, 127, true> {};
template <>
struct FormatOf<DataType::f8e4m3> : Format<uint8_t, 4, 7, true> {};  // OCP FP8: no infinity, largest 448
template <>
struct FormatOf<DataType::f8e5m2> : Format<uint8_t, 3, 15, true> {};  // OCP FP8: IEEE-like

inline constexpr int kDataTypes = 12;

// Calls f(FormatOf<type>{}); an unknown type calls nothing.
template <class F>
inline void with_format(DataType type, F&& f) {
  switch (type) {
    case DataType::int8:
      return f(FormatOf<DataType::int8>{});
    case DataType::uint8:
      return f(FormatOf<DataType::uint8>{});
    case DataType::int32:
      return f(FormatOf<DataType::int32>{});
    case DataType::uint32:
      return f(FormatOf<DataType::uint32>{});
    case DataType::int64:
      return f(FormatOf<DataType::int64>{});
    case DataType::uint64:
      return f(FormatOf<DataType::uint64>{});
    case DataType::half:
      return f(FormatOf<DataType::half>{});
    case DataType::float32:
      return f(FormatOf<DataType::float32>{});
    case DataType::double64:
      return f(FormatOf<DataType::double64>{});
    case DataType::bfloat16:
      return f(FormatOf<DataType::bfloat16>{});
    case DataType::f8e4m3:
      return f(FormatOf<DataType::f8e4m3>{});
    case DataType::f8e5m2:
      return f(FormatOf<DataType::f8e5m2>{});
  }
}

// Bytes of one element; 0 for an unknown type.
inline uint64_t size_of(DataType type) {
  uint64_t size = 0;
  with_format(type, [&](auto format) { size = sizeof(typename decltype(format)::Bits); });
  return size;
}

NCCLTUNE_BOTH int highest_bit(uint64_t x) {  // x != 0
#ifdef __CUDA_ARCH__
  return 63 - __clzll(static_cast<long long>(x));
#else
  return 63 - __builtin_clzll(x);
#endif
}

NCCLTUNE_BOTH uint64_t multiply_high(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b);
#else
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
#endif
}

// The bits of +-magnitude * 2^exponent, which the caller has made representable: bits below the last place are cut off
// and an overflow is not looked for. Zero is +0, whatever the sign.
template <class F>
NCCLTUNE_BOTH typename F::Bits encode(bool negative, uint64_t magnitude, int exponent) {
  using Bits = typename F::Bits;
  constexpr int kFraction = F::kPrecision - 1;
  if (magnitude == 0) return 0;
  const int top = highest_bit(magnitude);
  uint64_t biased = 0;
  int shift = exponent - F::kLeast;  // subnormal: in units of the smallest number
  if (top + exponent >= F::kLeastNormal) {
    const int raised = top + exponent + F::kBias;
    biased = static_cast<uint64_t>(raised);
    shift = kFraction - top;
  }
  const uint64_t fraction = shift >= 0 ? magnitude << shift : magnitude >> -shift;
  const uint64_t bits = (biased << kFraction) | (fraction & ((uint64_t(1) << kFraction) - 1));
  return static_cast<Bits>(negative ? bits | F::kSignBit : bits);
}

// The value of a bit pattern. Infinities and NaN come out as such (E4M3 has no infinity, and one NaN of each sign).
template <class F>
NCCLTUNE_BOTH double decode(typename F::Bits bits) {
  if constexpr (!F::kFloat) {
    if (F::kSigned && (bits & F::kSignBit)) return -static_cast<double>(static_cast<typename F::Bits>(~bits)) - 1.0;
    return static_cast<double>(bits);
  } else {
    constexpr int kFraction = F::kPrecision - 1;
    constexpr uint64_t kMaxBiased = (uint64_t(1) << (F::kWidth - F::kPrecision)) - 1;
    constexpr bool kHasInfinity = !(F::kWidth == 8 && F::kPrecision == 4);
    const bool negative = (bits & F::kSignBit) != 0;
    const uint64_t fraction = bits & ((uint64_t(1) << kFraction) - 1);
    const uint64_t biased = (static_cast<uint64_t>(bits) >> kFraction) & kMaxBiased;
    double value;
    if (kHasInfinity && biased == kMaxBiased) {
      value = fraction ? NAN : INFINITY;
    } else if (!kHasInfinity && biased == kMaxBiased && fraction == (uint64_t(1) << kFraction) - 1) {
      value = NAN;
    } else if (biased == 0) {
      value = ldexp(static_cast<double>(fraction), F::kLeast);
    } else {
      value = ldexp(static_cast<double>(fraction | (uint64_t(1) << kFraction)),
                    static_cast<int>(biased) - F::kBias - kFraction);
    }
    return negative ? -value : value;
  }
}

}  // namespace nccltune::worker
