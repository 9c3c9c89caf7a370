// SPDX-License-Identifier: Apache-2.0
#include "worker/host_reduce.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "worker/common_arithmetic.h"
#include "worker/common_data.h"

namespace nccltune::worker {

// The C++ type that computes as the format does, where there is one: the compiler makes vector code of it.
template <class F>
struct Native {
  using Type = void;
};
template <>
struct Native<FormatOf<DataType::float32>> {
  using Type = float;
};
template <>
struct Native<FormatOf<DataType::double64>> {
  using Type = double;
};
template <class F>
constexpr bool is_native = !F::kFloat || !std::is_void_v<typename Native<F>::Type>;

// Unsigned arithmetic wraps and gives the same bits as signed; only the order of signed values differs.
template <class F, Op kOp>
static void reduce_native(void* out, const void* a, const void* b, size_t elements) {
  using Ordered =
      std::conditional_t<F::kFloat, typename Native<F>::Type,
                         std::conditional_t<F::kSigned, std::make_signed_t<typename F::Bits>, typename F::Bits>>;
  using Computed = std::conditional_t<F::kFloat, typename Native<F>::Type, typename F::Bits>;
  using T = std::conditional_t<kOp == Op::max || kOp == Op::min, Ordered, Computed>;
  T* to = static_cast<T*>(out);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  for (size_t i = 0; i < elements; ++i) {
    if constexpr (kOp == Op::prod) {
      to[i] = static_cast<T>(x[i] * y[i]);
    } else if constexpr (kOp == Op::max) {
      to[i] = std::max(x[i], y[i]);
    } else if constexpr (kOp == Op::min) {
      to[i] = std::min(x[i], y[i]);
    } else {
      to[i] = static_cast<T>(x[i] + y[i]);
    }
  }
}

template <class F, Op kOp>
static void reduce_rounded(void* out, const void* a, const void* b, size_t elements) {
  using Bits = typename F::Bits;
  for (size_t i = 0; i < elements; ++i) {
    static_cast<Bits*>(out)[i] = combine<F>(kOp, static_cast<const Bits*>(a)[i], static_cast<const Bits*>(b)[i]);
  }
}

template <class F, Op kOp>
static ReduceFunction pick() {
  if constexpr (is_native<F>) {
    return reduce_native<F, kOp>;
  } else {
    return reduce_rounded<F, kOp>;
  }
}

ReduceFunction reduce_function(DataType type, Op op) {
  ReduceFunction function = nullptr;
  with_format(type, [&](auto format) {
    using F = decltype(format);
    switch (op) {
      case Op::prod:
        function = pick<F, Op::prod>();
        break;
      case Op::max:
        function = pick<F, Op::max>();
        break;
      case Op::min:
        function = pick<F, Op::min>();
        break;
      default:
        function = pick<F, Op::sum>();
        break;
    }
  });
  return function;
}

void multiply_by_scalar(DataType type, uint32_t rank, const void* in, void* out, size_t elements) {
  with_format(type, [&](auto format) {
    using F = decltype(format);
    using Bits = typename F::Bits;
    const Bits scalar = scalar_bits<F>(rank);
    for (size_t i = 0; i < elements; ++i)
      static_cast<Bits*>(out)[i] = multiply<F>(static_cast<const Bits*>(in)[i], scalar);
  });
}

void divide_by_ranks(DataType type, uint32_t ranks, void* data, size_t elements) {
  with_format(type, [&](auto format) {
    using F = decltype(format);
    auto* values = static_cast<typename F::Bits*>(data);
    for (size_t i = 0; i < elements; ++i) values[i] = divide<F>(values[i], ranks);
  });
}

}  // namespace nccltune::worker
