// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "worker/common_arithmetic.h"
#include "worker/host_address.h"
#include "worker/host_reduce.h"

namespace nccltune::worker {
namespace {

// The vector loops give what the plain arithmetic of the type gives.
TEST(HostReduce, AgreesWithTheTypesArithmetic) {
  std::mt19937_64 random(4);
  for (int t = 0; t < kDataTypes; ++t) {
    for (Op op : {Op::sum, Op::prod, Op::max, Op::min}) {
      with_format(static_cast<DataType>(t), [&](auto format) {
        using F = decltype(format);
        using Bits = typename F::Bits;
        constexpr size_t kCount = 257;  // not a multiple of any vector
        std::vector<Bits> a(kCount), b(kCount), out(kCount);
        for (size_t i = 0; i < kCount; ++i) {
          a[i] = static_cast<Bits>(random());
          b[i] = static_cast<Bits>(random());
          if (F::kFloat && !(std::isfinite(decode<F>(a[i])) && std::isfinite(decode<F>(b[i])))) a[i] = b[i] = 0;
        }
        reduce_function(static_cast<DataType>(t), op)(out.data(), a.data(), b.data(), kCount);
        for (size_t i = 0; i < kCount; ++i) {
          const Bits expected = combine<F>(op, a[i], b[i]);
          if (F::kFloat && std::isnan(decode<F>(expected)) && std::isnan(decode<F>(out[i]))) continue;
          ASSERT_EQ(out[i], expected) << "type " << t << " op " << static_cast<int>(op);
        }
      });
    }
  }
}

const std::vector<LocalAddress> kAddresses = {{"lo", "127.0.0.1", true},
                                              {"docker0", "172.17.0.1", false},
                                              {"eth0", "10.0.0.5", false},
                                              {"eth10", "10.1.0.5", false}};

TEST(HostAddress, FollowsTheGrammarOfSocketIfname) {
  EXPECT_EQ(select_address("=eth10", kAddresses), "10.1.0.5");
  EXPECT_EQ(select_address("eth1", kAddresses), "10.1.0.5");
  EXPECT_EQ(select_address("eth", kAddresses), "10.0.0.5");
  EXPECT_EQ(select_address("=eth1", kAddresses), "");
  EXPECT_EQ(select_address("^docker", kAddresses), "10.0.0.5");
  EXPECT_EQ(select_address("=lo", kAddresses), "127.0.0.1");
  EXPECT_EQ(select_address("ib,eth10", kAddresses), "10.1.0.5");
}

TEST(HostAddress, AsksTheKernelForTheWay) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_towards("no address"), "");
  bool loopback = false;
  for (const LocalAddress& local : local_addresses()) loopback |= local.loopback && local.address == "127.0.0.1";
  EXPECT_TRUE(loopback);
}

}  // namespace
}  // namespace nccltune::worker
