// SPDX-License-Identifier: Apache-2.0
#include "worker/common_shape.h"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>

namespace nccltune::worker {

const char* name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::broadcast:
      return "broadcast";
    case Collective::reduce:
      return "reduce";
    case Collective::alltoall:
      return "alltoall";
    case Collective::alltoallv:
      return "alltoallv";
    case Collective::gather:
      return "gather";
    case Collective::scatter:
      return "scatter";
    case Collective::sendrecv:
      return "sendrecv";
    case Collective::hypercube:
      return "hypercube";
  }
  return "?";
}

bool reduces(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce_scatter || c == Collective::reduce;
}

bool has_root(Collective c) {
  return c == Collective::broadcast || c == Collective::reduce || c == Collective::gather || c == Collective::scatter;
}

bool is_checkable(Collective c, bool in_place) {
  return !in_place || !(c == Collective::alltoall || c == Collective::alltoallv || c == Collective::sendrecv);
}

uint64_t Traffic::bytes(uint32_t from, uint32_t to, uint32_t ranks, uint64_t total) const {
  constexpr uint64_t kTrim = ~uint64_t(15);
  if (!matrix.empty()) return matrix[from][to];
  if (ranks == 1) return total & kTrim;
  const uint32_t distance = (to + ranks - from) % ranks;
  const uint64_t all_distances = uint64_t(ranks) * (ranks - 1) / 2;
  const double even = static_cast<double>(total) / ranks;
  const double by_distance =
      static_cast<double>(distance) * static_cast<double>(total) / static_cast<double>(all_distances);
  return static_cast<uint64_t>((1.0 - spread) * even + spread * by_distance) & kTrim;
}

static Shape alltoallv_shape(Shape shape, uint32_t ranks, const Traffic& traffic) {
  const uint64_t total = shape.count * ranks * shape.element_bytes;
  if (traffic.matrix.empty()) {  // every rank moves the same
    for (uint32_t peer = 0; peer < ranks; ++peer)
      shape.send += traffic.bytes(0, peer, ranks, total) / shape.element_bytes;
    shape.receive = shape.send;
    return shape;
  }
  shape.count = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    uint64_t sent = 0, received = 0;
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      sent += traffic.matrix[rank][peer] / shape.element_bytes;
      received += traffic.matrix[peer][rank] / shape.element_bytes;
    }
    shape.send = std::max(shape.send, sent);
    shape.receive = std::max(shape.receive, received);
  }
  return shape;
}

Shape shape_of(Collective collective, DataType type, uint64_t bytes, uint32_t ranks, const Traffic& traffic) {
  Shape shape;
  shape.element_bytes = size_of(type);
  const uint64_t whole = bytes / shape.element_bytes;
  const uint64_t share = (whole / ranks) & ~(16 / shape.element_bytes - 1);
  shape.count = share;
  switch (collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::sendrecv:
      shape.count = shape.send = shape.receive = whole;
      break;
    case Collective::all_gather:
    case Collective::gather:
    case Collective::hypercube:
      shape.send = shape.send_offset = share;
      shape.receive = share * ranks;
      break;
    case Collective::reduce_scatter:
    case Collective::scatter:
      shape.send = share * ranks;
      shape.receive = shape.receive_offset = share;
      break;
    case Collective::alltoall:
      shape.send = shape.receive = share * ranks;
      break;
    case Collective::alltoallv:
      return alltoallv_shape(shape, ranks, traffic);
  }
  return shape;
}

uint64_t shift_of(const Shape& shape, uint64_t max_bytes, uint64_t i) {
  const uint64_t bytes = shape.bytes();
  const uint64_t steps = bytes ? max_bytes / bytes : 1;
  return steps > 1 ? bytes * (i % steps) : 0;
}

std::vector<uint64_t> sent_to(const Shape& shape, uint32_t rank, uint32_t ranks, const Traffic& traffic) {
  std::vector<uint64_t> counts(ranks);
  const uint64_t total = shape.count * ranks * shape.element_bytes;
  for (uint32_t peer = 0; peer < ranks; ++peer)
    counts[peer] = traffic.bytes(rank, peer, ranks, total) / shape.element_bytes;
  return counts;
}

std::vector<uint64_t> received_from(const Shape& shape, uint32_t rank, uint32_t ranks, const Traffic& traffic) {
  std::vector<uint64_t> counts(ranks);
  const uint64_t total = shape.count * ranks * shape.element_bytes;
  for (uint32_t peer = 0; peer < ranks; ++peer)
    counts[peer] = traffic.bytes(peer, rank, ranks, total) / shape.element_bytes;
  return counts;
}

Pattern sent_pattern(const Case& job, uint32_t rank, uint32_t ranks, uint64_t seed) {
  Pattern pattern;
  pattern.reduced = reduces(job.collective);
  pattern.op = pattern.reduced ? job.op : Op::none;
  pattern.source = rank;
  pattern.reduction = make_reduction(job.type, pattern.op, seed, ranks);
  return pattern;
}

static std::vector<Run> alltoallv_runs(Pattern pattern, const Shape& shape, uint32_t rank, uint32_t ranks,
                                       const Traffic& traffic) {
  std::vector<Run> runs;
  uint64_t offset = 0;
  const uint64_t total = shape.count * ranks * shape.element_bytes;
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    const uint64_t count = traffic.bytes(peer, rank, ranks, total) / shape.element_bytes;
    if (count == 0) continue;
    pattern.source = peer;
    pattern.first = 0;
    for (uint32_t before = 0; before < rank; ++before) {
      pattern.first += traffic.bytes(peer, before, ranks, total) / shape.element_bytes;
    }
    runs.push_back({offset, count, 1, pattern});
    offset += count;
  }
  return runs;
}

std::vector<Run> expected_runs(const Case& job, const Shape& shape, uint32_t rank, uint32_t ranks,
                               const Traffic& traffic, uint64_t seed) {
  Pattern pattern = sent_pattern(job, 0, ranks, seed);
  const uint32_t root = static_cast<uint32_t>(std::max(job.root, 0));
  switch (job.collective) {
    case Collective::all_reduce:
      return {{0, shape.receive, 1, pattern}};
    case Collective::reduce:
      if (rank != root) return {};
      return {{0, shape.receive, 1, pattern}};
    case Collective::reduce_scatter:
      pattern.first = rank * shape.count;
      return {{0, shape.receive, 1, pattern}};
    case Collective::all_gather:
    case Collective::hypercube:
      return {{0, shape.count, ranks, pattern}};
    case Collective::gather:
      if (rank != root) return {};
      return {{0, shape.count, ranks, pattern}};
    case Collective::alltoall:
      pattern.first = rank * shape.count;
      return {{0, shape.count, ranks, pattern}};
    case Collective::alltoallv:
      return alltoallv_runs(pattern, shape, rank, ranks, traffic);
    case Collective::broadcast:
      pattern.source = root;
      return {{0, shape.receive, 1, pattern}};
    case Collective::scatter:
      pattern.source = root;
      pattern.first = rank * shape.count;
      return {{0, shape.receive, 1, pattern}};
    case Collective::sendrecv:
      pattern.source = (rank + ranks - 1) % ranks;
      return {{0, shape.receive, 1, pattern}};
  }
  return {};
}

std::vector<Span> spans_of(const std::vector<Run>& runs) {
  std::vector<Span> spans;
  for (const Run& run : runs) {
    if (!spans.empty() && spans.back().from + spans.back().count == run.offset)
      spans.back().count += run.count * run.repeat;
    else
      spans.push_back({run.offset, run.count * run.repeat});
  }
  return spans;
}

Place locate(const std::vector<Run>& runs, uint64_t index) {
  for (const Run& run : runs) {
    if (run.count == 0 || index < run.offset || index >= run.offset + run.count * run.repeat) continue;
    Place place{true, run.pattern, (index - run.offset) % run.count};
    if (!place.pattern.reduced) place.pattern.source += static_cast<uint32_t>((index - run.offset) / run.count);
    return place;
  }
  return {};
}

std::string value_text(DataType type, uint64_t bits) {
  char text[64] = "";
  with_format(type, [&](auto format) {
    using F = decltype(format);
    const auto value = static_cast<typename F::Bits>(bits);
    if constexpr (F::kFloat && F::kWidth == 64) {
      std::snprintf(text, sizeof text, "%.17g", decode<F>(value));
    } else if constexpr (F::kFloat) {
      std::snprintf(text, sizeof text, "%.9g (0x%0*" PRIx64 ")", decode<F>(value), F::kWidth / 4,
                    static_cast<uint64_t>(value));
    } else if constexpr (F::kSigned) {
      constexpr int kUp = 64 - F::kWidth;
      std::snprintf(text, sizeof text, "%" PRId64, static_cast<int64_t>(bits << kUp) >> kUp);
    } else {
      std::snprintf(text, sizeof text, "%" PRIu64, static_cast<uint64_t>(value));
    }
  });
  return text;
}

std::string expected_text(DataType type, const Place& place) {
  std::string text;
  with_format(type, [&](auto format) {
    using F = decltype(format);
    const Reduction& r = place.pattern.reduction;
    if constexpr (F::kFloat) {
      if (place.pattern.reduced && place.pattern.op == Op::avg && !r.exact_average) {
        const double mean = mean_of<F>(place.pattern, place.index);
        char buffer[64];
        std::snprintf(buffer, sizeof buffer, "%.9g +- %.2g", mean, std::fabs(mean) * r.bound + r.bound_absolute);
        text = buffer;
        return;
      }
    }
    text = value_text(type, expected_bits<F>(place.pattern, place.index));
  });
  return text;
}

}  // namespace nccltune::worker
