// SPDX-License-Identifier: Apache-2.0
#include "base/cpuset.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/text.h"

namespace nccltune {
namespace {

// 4096 separate CPUs make about 24 KiB; more than this is no list of a kernel's, and overlapping ranges would cost
// time.
constexpr size_t kMaxListLength = 32768;

// One "3", "0-3" or "16-31:2" added to out.
bool add_range(CpuSet& out, std::string_view part) {
  int64_t step = 1;
  if (const size_t colon = part.find(':'); colon != std::string_view::npos) {
    const auto parsed = parse_int(part.substr(colon + 1), 1, CpuSet::kMaxId);
    if (!parsed) return false;
    step = *parsed;
    part = part.substr(0, colon);
  }
  const size_t dash = part.find('-');
  const auto low = parse_int(part.substr(0, dash), 0, CpuSet::kMaxId);
  if (!low) return false;
  int64_t high = *low;
  if (dash != std::string_view::npos) {
    const auto parsed = parse_int(part.substr(dash + 1), 0, CpuSet::kMaxId);
    if (!parsed || *parsed < *low) return false;
    high = *parsed;
  }
  for (int64_t id = *low; id <= high; id += step) out.add(static_cast<int>(id));
  return true;
}

}  // namespace

std::optional<CpuSet> CpuSet::from_list(std::string_view list) {
  list = nccltune::trim(list);
  CpuSet out;
  if (list.empty()) return out;
  if (list.size() > kMaxListLength) return std::nullopt;
  for (std::string_view part : split(list, ','))
    if (!add_range(out, nccltune::trim(part))) return std::nullopt;
  return out;
}

std::optional<CpuSet> CpuSet::from_mask(std::string_view mask) {
  mask = nccltune::trim(mask);
  if (mask.size() > 2 && mask[0] == '0' && (mask[1] == 'x' || mask[1] == 'X')) mask.remove_prefix(2);
  if (mask.empty() || mask.size() > kMaxListLength) return std::nullopt;
  CpuSet out;
  // Each group is 32 bits; the last one is the least significant. Without commas the digits simply run on.
  int bit = 0, digits = 0;
  for (auto it = mask.rbegin(); it != mask.rend(); ++it) {
    if (*it == ',') {
      if (digits == 0 || digits > 8) return std::nullopt;
      bit += 4 * (8 - digits);
      digits = 0;
      continue;
    }
    const auto value = parse_hex(std::string_view(&*it, 1));
    if (!value) return std::nullopt;
    for (int i = 0; i < 4; ++i) {
      if (!(*value >> i & 1)) continue;
      if (bit + i > kMaxId) return std::nullopt;
      out.add(bit + i);
    }
    bit += 4;
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  return out;
}

void CpuSet::add(int id) {
  if (id < 0 || id > kMaxId) return;
  const size_t word = static_cast<size_t>(id) / 64;
  if (word >= words_.size()) words_.resize(word + 1);
  words_[word] |= uint64_t{1} << (id % 64);
}

void CpuSet::remove(int id) {
  if (!contains(id)) return;
  words_[static_cast<size_t>(id) / 64] &= ~(uint64_t{1} << (id % 64));
  trim();
}

bool CpuSet::contains(int id) const {
  if (id < 0) return false;
  const size_t word = static_cast<size_t>(id) / 64;
  return word < words_.size() && (words_[word] >> (id % 64) & 1);
}

bool CpuSet::empty() const { return words_.empty(); }

int CpuSet::count() const {
  int n = 0;
  for (uint64_t word : words_) n += std::popcount(word);
  return n;
}

int CpuSet::first() const {
  for (size_t i = 0; i < words_.size(); ++i)
    if (words_[i]) return static_cast<int>(i) * 64 + std::countr_zero(words_[i]);
  return -1;
}

std::vector<int> CpuSet::ids() const {
  std::vector<int> out;
  for (size_t i = 0; i < words_.size(); ++i)
    for (uint64_t word = words_[i]; word; word &= word - 1)
      out.push_back(static_cast<int>(i) * 64 + std::countr_zero(word));
  return out;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  if (words_.size() > other.words_.size()) words_.resize(other.words_.size());
  for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  trim();
  return *this;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
  for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
  for (size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) words_[i] &= ~other.words_[i];
  trim();
  return *this;
}

bool CpuSet::operator==(const CpuSet& other) const { return words_ == other.words_; }

bool CpuSet::is_subset_of(const CpuSet& other) const { return (*this - other).empty(); }

std::string CpuSet::list() const {
  std::string out;
  const std::vector<int> all = ids();
  for (size_t i = 0; i < all.size();) {
    size_t end = i;
    while (end + 1 < all.size() && all[end + 1] == all[end] + 1) ++end;
    if (!out.empty()) out += ',';
    out += std::to_string(all[i]);
    if (end > i) out += '-' + std::to_string(all[end]);
    i = end + 1;
  }
  return out;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

}  // namespace nccltune
