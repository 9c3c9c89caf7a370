// SPDX-License-Identifier: Apache-2.0
#include "bench/schedule.h"

#include <algorithm>
#include <cstdint>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

bool is_float8(protocol::DataType type) {
  return type == protocol::DataType::f8e4m3 || type == protocol::DataType::f8e5m2;
}

}  // namespace

std::vector<Sweep> sweeps_of(const Options& options, int ranks, uint32_t types) {
  const CollectiveInfo& info = info_of(options.collective);
  std::vector<int> roots = {-1};
  if (info.has_root) {
    roots = {options.root};
    if (options.root < 0) {
      roots.clear();
      for (int r = 0; r < ranks; ++r) roots.push_back(r);
    }
  }
  const std::vector<protocol::Op> none = {protocol::Op::none};
  std::vector<Sweep> sweeps;
  for (const protocol::DataType type : options.types) {
    if (!(types >> static_cast<uint32_t>(type) & 1)) continue;
    for (const protocol::Op op : info.has_op ? options.ops : none) {
      // mulsum needs a scalar of the type (ncclRedOpCreatePreMulSum), which there is none of for fp8.
      if (op == protocol::Op::mulsum && is_float8(type)) continue;
      for (const int root : roots) sweeps.push_back({type, op, root});
    }
  }
  return sweeps;
}

std::vector<uint64_t> sizes_of(const Options& options, uint64_t max_bytes) {
  std::vector<uint64_t> sizes;
  for (uint64_t size = options.min_bytes; size <= max_bytes;) {
    sizes.push_back(size);
    const uint64_t next = options.adds_bytes() ? size + options.step_bytes : size * options.factor;
    if (next <= size) break;  // from 0 no factor leads on; past 2^64 neither
    size = next;
  }
  return sizes;
}

std::vector<uint64_t> warmup_sizes_of(const Options& options, uint64_t max_bytes) {
  std::vector<uint64_t> sizes;
  for (uint64_t size = std::max<uint64_t>(options.min_bytes, 1); size <= max_bytes; size *= 2) {
    sizes.push_back(size);
    if (size > UINT64_MAX / 2) break;
  }
  return sizes;
}

uint64_t largest_message(uint64_t free_bytes, uint64_t total_bytes, int share, bool check, bool host) {
  const uint64_t buffers = (check ? 3 : 2) * static_cast<uint64_t>(std::max(share, 1));
  if (host) return free_bytes / 2 / buffers;
  const uint64_t reserve = std::min((total_bytes + 16 * kGiB - 1) / (16 * kGiB) * kGiB, 4 * kGiB) + kGiB;
  const uint64_t of_total = total_bytes > reserve ? total_bytes - reserve : total_bytes / 2;
  const uint64_t of_free = free_bytes > 2 * kGiB ? free_bytes - kGiB : free_bytes / 2;
  return std::min(of_total, of_free) / buffers;
}

Schedule schedule_of(const Options& options, const Digest& digest, const std::vector<int>& sizes) {
  const int ranks = *std::min_element(sizes.begin(), sizes.end());  // every group has a root of these
  Schedule schedule;
  const auto refuse = [&schedule](std::string text) {
    schedule.refusal = std::move(text);
    return schedule;
  };
  const uint64_t limit = digest.largest_message;
  schedule.max_bytes = std::min(options.max_bytes, limit);
  if (!options.all_types)
    for (const auto type : options.types)
      if (!(digest.types >> static_cast<uint32_t>(type) & 1))
        return refuse(print("-d: this library or device has no %s", std::string(type_name(type)).c_str()));
  schedule.sweeps = sweeps_of(options, ranks, digest.types);
  if (schedule.max_bytes < options.min_bytes)
    return refuse(print("-b: %s is more than memory allows, %s", human_size(options.min_bytes).c_str(),
                        human_size(limit).c_str()));
  if (info_of(options.collective).has_root && options.root >= ranks)
    return refuse(print("-r: there is no rank %d among %d", options.root, ranks));
  if (schedule.sweeps.empty()) return refuse("-d: this library has none of the datatypes that were asked for");
  if (options.collective == protocol::Collective::hypercube)
    for (const int size : sizes)
      if (size & (size - 1)) return refuse(print("hypercube: needs a power of two of ranks, not %d", size));
  return schedule;
}

}  // namespace nccltune::bench
