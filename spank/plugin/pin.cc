// SPDX-License-Identifier: Apache-2.0
#include "plugin/pin.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace nccltune {
namespace {

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuMask = std::unique_ptr<cpu_set_t, FreeSet>;

constexpr int kFirstSize = 1024;  // glibc's fixed cpu_set_t; kernels of more CPUs answer EINVAL, then we double it

}  // namespace

std::optional<CpuSet> current_mask() {
  for (int size = kFirstSize; size <= CpuSet::kMaxId + 1; size *= 2) {
    CpuMask mask(CPU_ALLOC(size));
    if (!mask) return std::nullopt;
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    CPU_ZERO_S(bytes, mask.get());
    if (sched_getaffinity(0, bytes, mask.get()) != 0) {
      if (errno == EINVAL) continue;
      return std::nullopt;
    }
    CpuSet cpus;
    for (int id = 0; id < size; ++id)
      if (CPU_ISSET_S(id, bytes, mask.get())) cpus.add(id);
    return cpus;
  }
  return std::nullopt;
}

std::optional<Error> set_mask(const CpuSet& cpus) {
  const std::vector<int> ids = cpus.ids();
  if (ids.empty()) return Error{"CPU mask", "the plan pins to no CPU", "", ""};
  CpuMask mask(CPU_ALLOC(ids.back() + 1));
  if (!mask) return Error{"CPU mask", "no memory for " + cpus.list(), "", ""};
  const std::size_t bytes = CPU_ALLOC_SIZE(ids.back() + 1);
  CPU_ZERO_S(bytes, mask.get());
  for (int id : ids) CPU_SET_S(id, bytes, mask.get());
  if (sched_setaffinity(0, bytes, mask.get()) == 0) return std::nullopt;
  return Error{"CPU mask", "cannot pin to " + cpus.list(), std::strerror(errno), ""};
}

Result<Preference> prefer_memory_of(int numa_node) {
  if (numa_node < 0 || numa_node > CpuSet::kMaxId)
    return Error{"memory policy", "NUMA node " + std::to_string(numa_node) + " is out of range", "", ""};
  int mode = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) != 0) {
    if (errno == ENOSYS || errno == EPERM) return Preference::unavailable;
    return Error{"memory policy", "cannot be read", std::strerror(errno), ""};
  }
  if (mode != MPOL_DEFAULT) return Preference::already_chosen;
  constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  std::vector<unsigned long> mask(numa_node / kBits + 1, 0UL);
  mask[numa_node / kBits] |= 1UL << (numa_node % kBits);
  // The kernel takes one bit fewer than it is told (mm/mempolicy.c: get_nodes does --maxnode).
  if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), mask.size() * kBits + 1) == 0) return Preference::set;
  if (errno == EINVAL) return Preference::not_allowed;
  if (errno == ENOSYS || errno == EPERM) return Preference::unavailable;
  return Error{"memory policy", "cannot prefer NUMA node " + std::to_string(numa_node), std::strerror(errno), ""};
}

}  // namespace nccltune
