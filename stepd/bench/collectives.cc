// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives.h"

#include <array>
#include <cstdint>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

using protocol::Collective;
using Factor = CollectiveInfo::Factor;

constexpr std::array<std::string_view, kTypes> kTypeNames = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                                             "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
constexpr std::array<uint64_t, kTypes> kTypeBytes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
constexpr std::array<std::string_view, kOps + 1> kOpNames = {"sum", "prod", "max", "min", "avg", "mulsum", "none"};

std::string without_separators(std::string_view name) {
  std::string text;
  for (const char c : lower(name))
    if (c != '_' && c != '-') text += c;
  if (text.size() > 4 && text.ends_with("perf")) text.resize(text.size() - 4);
  return text;
}

}  // namespace

const std::vector<CollectiveInfo>& collectives() {
  static const std::vector<CollectiveInfo> kTable = {
      {Collective::all_reduce, "all_reduce", true, false, false, Factor::twice_ring,
       "every rank gets the reduction of all"},
      {Collective::all_gather, "all_gather", false, false, true, Factor::ring, "every rank gets the blocks of all"},
      {Collective::reduce_scatter, "reduce_scatter", true, false, true, Factor::ring,
       "rank i gets block i of the reduction"},
      {Collective::broadcast, "broadcast", false, true, false, Factor::one, "every rank gets the root's buffer"},
      {Collective::reduce, "reduce", true, true, false, Factor::one, "the root gets the reduction of all"},
      {Collective::alltoall, "alltoall", false, false, true, Factor::ring, "rank i sends its block j to rank j"},
      {Collective::alltoallv, "alltoallv", false, false, true, Factor::ring, "alltoall with a size for each pair"},
      {Collective::gather, "gather", false, true, true, Factor::ring, "the root gets the blocks of all"},
      {Collective::scatter, "scatter", false, true, true, Factor::ring, "rank i gets block i of the root"},
      {Collective::sendrecv, "sendrecv", true, false, false, Factor::one, "each rank sends to the next, a ring"},
      // algbw counts what a rank sends, (n-1)/n of the size, so that the bus factor is 1 (hypercube.cu:40).
      {Collective::hypercube, "hypercube", false, false, true, Factor::one, "all_gather by log2(n) exchanges"},
  };
  return kTable;
}

const CollectiveInfo* find_collective(std::string_view name) {
  const std::string wanted = without_separators(name);
  for (const CollectiveInfo& info : collectives())
    if (without_separators(info.name) == wanted) return &info;
  return nullptr;
}

const CollectiveInfo& info_of(Collective id) {
  for (const CollectiveInfo& info : collectives())
    if (info.id == id) return info;
  return collectives().front();
}

std::string_view type_name(protocol::DataType type) {
  const auto at = static_cast<size_t>(type);
  return at < kTypeNames.size() ? kTypeNames[at] : "unknown";
}

std::string_view op_name(protocol::Op op) {
  const auto at = static_cast<size_t>(op);
  return at < kOpNames.size() ? kOpNames[at] : "unknown";
}

uint64_t type_bytes(protocol::DataType type) {
  const auto at = static_cast<size_t>(type);
  return at < kTypeBytes.size() ? kTypeBytes[at] : 1;
}

Shape shape_of(const CollectiveInfo& info, uint64_t bytes, protocol::DataType type, int ranks) {
  const uint64_t size = type_bytes(type);
  const uint64_t count = bytes / size;
  if (!info.per_peer) return {count * size, count};
  // Blocks start at multiples of 16 bytes, as the wide loads of NCCL's kernels want (nccl-tests since 2.13.12).
  const uint64_t n = ranks > 0 ? ranks : 1;
  const uint64_t base = (count / n) & ~(16 / size - 1);
  return {base * n * size, base};
}

double algorithm_gbs(const CollectiveInfo& info, uint64_t bytes, double seconds, int ranks) {
  if (!(seconds > 0)) return 0;
  double moved = static_cast<double>(bytes);
  if (info.id == Collective::hypercube) moved = moved / ranks * (ranks - 1);
  return moved / seconds / 1e9;
}

double bus_gbs(const CollectiveInfo& info, double algorithm, int ranks) {
  const double ring = ranks > 0 ? static_cast<double>(ranks - 1) / ranks : 0;
  switch (info.factor) {
    case Factor::one:
      return algorithm;
    case Factor::ring:
      return algorithm * ring;
    case Factor::twice_ring:
      return algorithm * 2 * ring;
  }
  return algorithm;
}

}  // namespace nccltune::bench
