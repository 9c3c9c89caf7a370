// SPDX-License-Identifier: Apache-2.0
// How one case is timed and checked, the same for every backend: nccl-tests' method (BenchTime), so that numbers
// compare.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/common_seat.h"
#include "worker/common_shape.h"
#include "worker/protocol.h"

namespace nccltune::worker {

// What a rank found wrong in its own buffer.
struct Findings {
  int64_t wrong = 0;  // elements
  int64_t first = 0;  // element index in the received data
  std::string expected, found;
};

enum class Input { exact, rough };  // see common_data.h

// One case on one backend. Buffers, stream and communicator are behind it. Errors are thrown as Failed.
class Transfer {
 public:
  virtual ~Transfer() = default;

  // Puts this rank's input in place and clears what will be received; done when it returns.
  virtual void fill(bool in_place, uint64_t seed, Input input) = 0;
  // Enqueues one operation; `iteration` chooses the place in the buffers.
  virtual void start(bool in_place, uint64_t iteration) = 0;
  // Waits for all that was started.
  virtual void finish() = 0;
  // Over the ranks of all groups, as exchange().
  virtual void barrier() = 0;
  virtual void begin_group() {}
  virtual void end_group() {}

  // CUDA graphs: what is started between begin and end is recorded, and runs at each launch.
  virtual void begin_capture() = 0;
  virtual void end_capture() = 0;
  virtual void launch_graph() = 0;
  virtual void drop_graph() = 0;

  // Marks on the device's time line; seconds between marks i and j, after finish().
  virtual void reserve_marks(uint32_t count) = 0;
  virtual void mark(uint32_t i) = 0;
  virtual double seconds_between(uint32_t i, uint32_t j) = 0;

  // Compares what iteration 0 received. Seeds as in fill().
  virtual Findings check(bool in_place, uint64_t seed) = 0;
  // Copies what iteration 0 received; compares, bit by bit, what it received now with that copy. `last`: of the runs,
  // which Fault::waver spoils.
  virtual void keep(bool in_place) = 0;
  virtual Findings compare_with_kept(bool in_place, bool last) = 0;
  // All ranks' `mine`, in rank order, at every rank.
  virtual void exchange(const void* mine, size_t bytes, void* all) = 0;
};

// For tests: the element that this rank shall spoil before it compares, -1 for none. Setup::fault_element counts from
// the start, or from the end when negative (-1 the last), and is cut to what the rank receives.
int64_t fault_element(const Seat& seat, const std::vector<Run>& runs, protocol::Fault fault = protocol::flip_element);
// The bits to turn over in it: the lowest, or the sign where an average's bound would excuse the lowest.
uint64_t fault_mask(DataType type, const std::vector<Run>& runs, int64_t element);

struct Outcome {
  protocol::CaseResult result;
  std::vector<protocol::Sample> samples;    // out of place, then in place
  std::vector<protocol::GroupTime> groups;  // likewise; empty: not split
};

// Runs a case on all ranks (of all groups) together. `seed` must be the same on all, and another for each case.
Outcome measure(const Case& job, const Shape& shape, const Seat& seat, uint64_t seed, Transfer& transfer);

// Warm-up of one size as nccl-tests does it: out of place, one wait at the end.
void warm_up(const Case& job, Transfer& transfer);

// One iteration's seconds on one rank: see protocol::Sample.
struct IterationTime {
  double whole = 0, own = 0;
};
// Of all ranks, in rank order; `group_of` as in Seat.
protocol::Sample sample_of(const std::vector<IterationTime>& times, const std::vector<uint32_t>& group_of);

// Whether iteration i of a rank that is late in `percent` of them is one of those: spread evenly.
bool is_late_iteration(int64_t percent, int iteration);

// Average::mean and its kin, over one number a rank.
double reduce_over_ranks(int32_t average, const std::vector<double>& values);

// A bounded, checksummed account of one rank's findings, fit for exchange().
struct Account {
  int64_t wrong = 0, first = 0;
  char expected[40] = "", found[40] = "";
  uint64_t checksum = 0;
};
Account account_of(const Findings& findings);
// Adds accounts, in rank order, to the total; a record whose checksum is off counts as wrong data of its rank.
void merge(const std::vector<Account>& accounts, protocol::WrongTotal& total);

}  // namespace nccltune::worker
