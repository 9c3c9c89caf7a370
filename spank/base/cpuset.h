// SPDX-License-Identifier: Apache-2.0
// A set of Linux CPU (or NUMA node) numbers, in the kernel's two text forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nccltune {

class CpuSet {
 public:
  // Largest number accepted; the kernel's NR_CPUS limit is 8192, and a hostile list must not eat memory.
  static constexpr int kMaxId = 65535;

  CpuSet() = default;

  // "0-3,8,16-31:2" (the kernel's list format; "" is the empty set). nullopt: not such a list, or a number above
  // kMaxId.
  static std::optional<CpuSet> from_list(std::string_view list);
  // "00000001,0000000f" (the kernel's mask format, most significant word first; a leading 0x is allowed).
  static std::optional<CpuSet> from_mask(std::string_view mask);

  void add(int id);  // ignored when negative or above kMaxId
  void remove(int id);
  bool contains(int id) const;
  bool empty() const;
  int count() const;
  int first() const;             // -1 when empty
  std::vector<int> ids() const;  // ascending

  CpuSet& operator&=(const CpuSet& other);
  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator-=(const CpuSet& other);
  friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
  friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
  friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
  bool operator==(const CpuSet& other) const;
  bool is_subset_of(const CpuSet& other) const;

  // The kernel's list format, shortest form: "0-3,8".
  std::string list() const;

 private:
  void trim();  // keeps the last word non-zero, so that equal sets have equal words
  std::vector<uint64_t> words_;
};

}  // namespace nccltune
