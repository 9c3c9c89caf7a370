// SPDX-License-Identifier: Apache-2.0
// One case on the GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/common_measure.h"
#include "worker/nccl_collectives.h"
#include "worker/verify.h"

namespace nccltune::worker {

class NcclTransfer : public Transfer {
 public:
  NcclTransfer(const Case& job, const Shape& shape, const Seat& seat, const Traffic& traffic, NcclWorld& world);
  ~NcclTransfer() override;

  void fill(bool in_place, uint64_t seed, Input input) override;
  void start(bool in_place, uint64_t iteration) override;
  void finish() override { world_.wait(operation_.job.timeout_ms); }
  void barrier() override { world_.barrier(operation_.job.timeout_ms); }
  void begin_group() override;
  void end_group() override;
  void begin_capture() override;
  void end_capture() override;
  void launch_graph() override;
  void drop_graph() override;
  void reserve_marks(uint32_t count) override;
  void mark(uint32_t i) override;
  double seconds_between(uint32_t i, uint32_t j) override;
  Findings check(bool in_place, uint64_t seed) override;
  void keep(bool in_place) override;
  Findings compare_with_kept(bool in_place, bool last) override;
  void exchange(const void* mine, size_t bytes, void* all) override;

 private:
  void spoil(char* data, const std::vector<Run>& runs, protocol::Fault fault);
  char* received(bool in_place) const;
  void clear_tally();
  Tally read_tally();
  uint64_t bits_at(const char* data, uint64_t element) const;

  NcclOperation operation_;
  Seat seat_;
  const Traffic& traffic_;
  NcclWorld& world_;
  char* send_;
  char* receive_;
  cudaGraphExec_t graph_ = nullptr;
  std::vector<cudaEvent_t> marks_;
  Tally* tally_ = nullptr;  // device
};

}  // namespace nccltune::worker
