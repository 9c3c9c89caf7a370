// SPDX-License-Identifier: Apache-2.0
// How much each collective moves and where it lies: nccl-tests' rules, so that a row means the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/common_data.h"
#include "worker/protocol.h"

namespace nccltune::worker {

using protocol::Case;
using protocol::Collective;

const char* name_of(Collective collective);
bool reduces(Collective collective);
bool has_root(Collective collective);

// nccl-tests times these in place but cannot check them: input and output overlap (prints N/A).
bool is_checkable(Collective collective, bool in_place);

// alltoallv: who sends how much to whom. Either a share that grows with the distance between ranks, or a matrix.
// Same environment as nccl-tests: NCCL_TESTS_ALLTOALLV_SPREAD, _MATRIX_FILE, _MATRIX_SCALE.
struct Traffic {
  double spread = 1.0;                        // 0: the same to all, 1: in proportion to the distance
  std::vector<std::vector<uint64_t>> matrix;  // bytes from row to column, multiples of 16; empty: by distance

  // Bytes that `from` sends to `to` when each rank sends about `total`. A multiple of 16.
  uint64_t bytes(uint32_t from, uint32_t to, uint32_t ranks, uint64_t total) const;
};

// Throws Failed for a file that cannot be read or is no square matrix of numbers.
Traffic read_traffic();

// Elements, and in-place offsets in elements that count once per rank.
struct Shape {
  uint64_t element_bytes = 1;
  uint64_t send = 0, receive = 0;  // in a rank's buffers (alltoallv: the largest of all ranks)
  uint64_t count = 0;              // handed to the library; the count column
  uint64_t send_offset = 0, receive_offset = 0;

  // The size column, and the step of the walk through the buffer.
  uint64_t bytes() const { return (send > receive ? send : receive) * element_bytes; }
};

// `bytes` as asked for; all but the plain collectives are trimmed to 16 bytes a rank (nccl-tests since 2.13.12).
Shape shape_of(Collective collective, DataType type, uint64_t bytes, uint32_t ranks, const Traffic& traffic);

// Where iteration `i` starts in the buffers, so that small sizes walk through all of it and find no cache warm.
uint64_t shift_of(const Shape& shape, uint64_t max_bytes, uint64_t i);

// From where to where one operation moves on a rank. In place, input and output are parts of the receive buffer.
struct Ends {
  char* from;
  char* to;
};
inline Ends ends_of(const Shape& shape, char* send, char* receive, uint32_t rank, bool in_place, uint64_t shift) {
  if (!in_place) return {send + shift, receive + shift};
  return {receive + shift + shape.send_offset * shape.element_bytes * rank,
          receive + shift + shape.receive_offset * shape.element_bytes * rank};
}

// Elements that go to or come from each rank.
std::vector<uint64_t> sent_to(const Shape& shape, uint32_t rank, uint32_t ranks, const Traffic& traffic);
std::vector<uint64_t> received_from(const Shape& shape, uint32_t rank, uint32_t ranks, const Traffic& traffic);

// `repeat` pieces of `count` elements in a row; piece k comes from source pattern.source + k.
struct Run {
  uint64_t offset = 0;  // elements from the start of the received data
  uint64_t count = 0;
  uint32_t repeat = 1;
  Pattern pattern;
};

// What `rank` must find in its receive buffer, nothing where it receives nothing (a rank of reduce or gather that is
// not the root).
std::vector<Run> expected_runs(const Case& job, const Shape& shape, uint32_t rank, uint32_t ranks,
                               const Traffic& traffic, uint64_t seed);

// What `rank` sends.
Pattern sent_pattern(const Case& job, uint32_t rank, uint32_t ranks, uint64_t seed);

// What all runs cover, in order: [from, from + count) elements of the received data.
struct Span {
  uint64_t from = 0, count = 0;
};
std::vector<Span> spans_of(const std::vector<Run>& runs);

// The run that holds element `index`, and its place in it: {nullptr, 0} if none does. Sets the pattern's source.
struct Place {
  bool found = false;
  Pattern pattern;
  uint64_t index = 0;
};
Place locate(const std::vector<Run>& runs, uint64_t index);

// "1.5 (0x3fc00000)": a value as people read it, and its bits.
std::string value_text(DataType type, uint64_t bits);
// What should be at that place.
std::string expected_text(DataType type, const Place& place);

}  // namespace nccltune::worker
