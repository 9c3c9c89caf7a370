// SPDX-License-Identifier: Apache-2.0
#include "worker/host_transfer.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "worker/common_io.h"

namespace nccltune::worker {

static unsigned microseconds_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

HostTransfer::HostTransfer(const Case& job, const Shape& shape, const Seat& seat, const Traffic& traffic, char* send,
                           char* receive, char* kept, HostCollectives& collectives, HostCollectives& control)
    : seat_(seat),
      traffic_(traffic),
      send_(send),
      receive_(receive),
      kept_(kept),
      collectives_(collectives),
      control_(control),
      delay_us_(microseconds_of(protocol::kTestSlow) + microseconds_of(protocol::kTestSlowMore)) {
  operation_.job = job;
  operation_.shape = shape;
  if (job.collective == Collective::alltoallv) {
    sent_ = sent_to(shape, seat.rank, seat.ranks, traffic);
    received_ = received_from(shape, seat.rank, seat.ranks, traffic);
    operation_.sent = &sent_;
    operation_.received = &received_;
  }
}

void HostTransfer::fill(bool in_place, uint64_t seed, Input input) {
  const Shape& shape = operation_.shape;
  std::memset(receive_, 0, shape.receive * shape.element_bytes);
  Pattern pattern = sent_pattern(operation_.job, seat_.rank, seat_.ranks, seed);
  pattern.rough = input == Input::rough;
  char* to = ends_of(shape, send_, receive_, seat_.rank, in_place, 0).from;
  with_format(operation_.job.type, [&](auto format) {
    using F = decltype(format);
    auto* values = reinterpret_cast<typename F::Bits*>(to);
    for (uint64_t i = 0; i < shape.send; ++i) values[i] = input_bits<F>(pattern, i);
  });
}

void HostTransfer::start(bool in_place, uint64_t iteration) {
  const uint64_t shift = shift_of(operation_.shape, operation_.job.max_bytes, iteration);
  operation_.ends = ends_of(operation_.shape, send_, receive_, seat_.rank, in_place, shift);
  if (delay_us_ > 0) ::usleep(delay_us_);
  collectives_.run(operation_);
}

void HostTransfer::barrier() { control_.barrier(); }

void HostTransfer::begin_capture() {
  throw Failed(protocol::FailureKind::unsupported, "Gloo: has no graphs; -G needs a GPU", "leave -G out");
}

double HostTransfer::seconds_between(uint32_t i, uint32_t j) {
  return std::chrono::duration<double>(marks_[j] - marks_[i]).count();
}

// Adds one run's wrong elements to the findings.
template <class F>
static void compare(const Run& run, const typename F::Bits* values, Findings& findings) {
  for (uint32_t piece = 0; piece < run.repeat; ++piece) {
    Pattern pattern = run.pattern;
    if (!pattern.reduced) pattern.source += piece;
    const uint64_t offset = run.offset + piece * run.count;
    for (uint64_t i = 0; i < run.count; ++i) {
      if (is_right<F>(pattern, i, values[offset + i])) continue;
      if (findings.wrong++ == 0) findings.first = static_cast<int64_t>(offset + i);
    }
  }
}

char* HostTransfer::received(bool in_place) const {
  return ends_of(operation_.shape, send_, receive_, seat_.rank, in_place, 0).to;
}

Findings HostTransfer::check(bool in_place, uint64_t seed) {
  const Case& job = operation_.job;
  char* data = received(in_place);
  const auto runs = expected_runs(job, operation_.shape, seat_.rank, seat_.ranks, traffic_, seed);
  Findings findings;
  with_format(job.type, [&](auto format) {
    using F = decltype(format);
    auto* values = reinterpret_cast<typename F::Bits*>(data);
    if (const int64_t at = fault_element(seat_, runs); at >= 0)
      values[at] ^= static_cast<typename F::Bits>(fault_mask(job.type, runs, at));
    for (const Run& run : runs) compare<F>(run, values, findings);
    if (findings.wrong == 0) return;
    findings.expected = expected_text(job.type, locate(runs, static_cast<uint64_t>(findings.first)));
    findings.found = value_text(job.type, values[findings.first]);
  });
  return findings;
}

void HostTransfer::keep(bool in_place) {
  if (!kept_) throw Failed(protocol::FailureKind::internal, "worker: asked to repeat without room for a copy");
  const uint64_t size = operation_.shape.element_bytes;
  const auto runs = expected_runs(operation_.job, operation_.shape, seat_.rank, seat_.ranks, traffic_, 0);
  for (const Span& span : spans_of(runs))
    std::memcpy(kept_ + span.from * size, received(in_place) + span.from * size, span.count * size);
}

Findings HostTransfer::compare_with_kept(bool in_place, bool last) {
  const DataType type = operation_.job.type;
  const auto runs = expected_runs(operation_.job, operation_.shape, seat_.rank, seat_.ranks, traffic_, 0);
  Findings findings;
  with_format(type, [&](auto format) {
    using Bits = typename decltype(format)::Bits;
    auto* now = reinterpret_cast<Bits*>(received(in_place));
    const auto* first = reinterpret_cast<const Bits*>(kept_);
    if (const int64_t at = last ? fault_element(seat_, runs, protocol::waver) : -1; at >= 0)
      now[at] ^= static_cast<Bits>(fault_mask(type, runs, at));
    for (const Span& span : spans_of(runs))
      for (uint64_t i = span.from; i < span.from + span.count; ++i)
        if (now[i] != first[i] && findings.wrong++ == 0) findings.first = static_cast<int64_t>(i);
    if (findings.wrong == 0) return;
    findings.expected = value_text(type, first[findings.first]);
    findings.found = value_text(type, now[findings.first]);
  });
  return findings;
}

void HostTransfer::exchange(const void* mine, size_t bytes, void* all) { control_.exchange(mine, bytes, all); }

}  // namespace nccltune::worker
