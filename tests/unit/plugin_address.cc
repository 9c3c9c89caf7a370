// SPDX-License-Identifier: Apache-2.0
// What a name server answers, which is bytes from the network: RFC 1035 section 4.
#include <gtest/gtest.h>

#include <string>

#include "plugin/address.h"

namespace nccltune {
namespace {

using namespace std::string_literals;

std::string header(int answers) { return "\x12\x34\x81\x80\0\x01\0"s + static_cast<char>(answers) + "\0\0\0\0"s; }

const std::string kQuestion =
    "\x02n1\x07"
    "cluster\0\0\x01\0\x01"s;
const std::string kSameName = "\xc0\x0c"s;  // a pointer to the question's

std::string record(const std::string& name, int type, const std::string& data) {
  return name + '\0' + static_cast<char>(type) + "\0\x01\0\0\0\x3c\0"s + static_cast<char>(data.size()) + data;
}

constexpr int kA = 1, kCname = 5, kAaaa = 28;
const std::string kCompute = "\x0a\0\0\x07"s, kLoopback = "\x7f\0\x01\x01"s;

TEST(DnsAnswer, IsTheFirstAddressThatIsNoLoopback) {
  EXPECT_EQ(address_in_dns_answer(header(1) + kQuestion + record(kSameName, kA, kCompute)), "10.0.0.7");
  EXPECT_EQ(address_in_dns_answer(header(4) + kQuestion + record(kSameName, kCname, "\x02hn\xc0\x0f"s) +
                                  record("\x02hn\xc0\x0f"s, kAaaa, std::string(16, '\1')) +
                                  record("\x02hn\xc0\x0f"s, kA, kLoopback) + record("\x02hn\xc0\x0f"s, kA, kCompute)),
            "10.0.0.7");
  EXPECT_EQ(address_in_dns_answer("\x12\x34\x81\x80\0\0\0\x01\0\0\0\0"s + record("\0"s, kA, kCompute)), "10.0.0.7");
}

TEST(DnsAnswer, NoneIsNone) {
  EXPECT_EQ(address_in_dns_answer(""), "");
  EXPECT_EQ(address_in_dns_answer(header(0) + kQuestion), "");
  EXPECT_EQ(address_in_dns_answer(header(1) + kQuestion + record(kSameName, kA, kLoopback)), "");
  EXPECT_EQ(address_in_dns_answer(header(1) + kQuestion + record(kSameName, kA, "\x0a\0\0"s)), "");
  EXPECT_EQ(address_in_dns_answer(header(1) + kQuestion + record(kSameName, kAaaa, std::string(16, '\1'))), "");
}

// More answers are announced than there are, a name has no end, a length points past the end.
TEST(DnsAnswer, ABrokenOneIsNone) {
  const std::string whole = header(1) + kQuestion + record(kSameName, kA, kCompute);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(address_in_dns_answer(std::string_view(whole).substr(0, size)), "") << size;
  EXPECT_EQ(address_in_dns_answer(header(200) + kQuestion + record(kSameName, kA, kLoopback)), "");
  EXPECT_EQ(address_in_dns_answer(header(1) + std::string(300, '\x3f')), "");
  std::string past = whole;
  past[past.size() - 5] = '\xff';
  EXPECT_EQ(address_in_dns_answer(past), "");
}

}  // namespace
}  // namespace nccltune
