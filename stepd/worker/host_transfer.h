// SPDX-License-Identifier: Apache-2.0
// One case in host memory over Gloo.
#pragma once

#include <chrono>
#include <cstdint>

#include "worker/common_measure.h"
#include "worker/host_collectives.h"

namespace nccltune::worker {

class HostTransfer : public Transfer {
 public:
  // `send` and `receive` hold job.max_bytes, `kept` too where job.repeat asks for it; they outlive this. `control`
  // joins the ranks of all groups.
  HostTransfer(const Case& job, const Shape& shape, const Seat& seat, const Traffic& traffic, char* send, char* receive,
               char* kept, HostCollectives& collectives, HostCollectives& control);

  void fill(bool in_place, uint64_t seed, Input input) override;
  void start(bool in_place, uint64_t iteration) override;
  void finish() override {}  // Gloo's collectives have ended when they return
  void barrier() override;
  void begin_capture() override;
  void end_capture() override {}
  void launch_graph() override {}
  void drop_graph() override {}
  void reserve_marks(uint32_t count) override { marks_.resize(count); }
  void mark(uint32_t i) override { marks_[i] = std::chrono::steady_clock::now(); }
  double seconds_between(uint32_t i, uint32_t j) override;
  Findings check(bool in_place, uint64_t seed) override;
  void keep(bool in_place) override;
  Findings compare_with_kept(bool in_place, bool last) override;
  void exchange(const void* mine, size_t bytes, void* all) override;

 private:
  char* received(bool in_place) const;

  HostOperation operation_;
  Seat seat_;
  const Traffic& traffic_;
  char* send_;
  char* receive_;
  char* kept_;
  HostCollectives& collectives_;
  HostCollectives& control_;
  unsigned delay_us_;  // protocol::kTestSlow
  std::vector<uint64_t> sent_, received_;
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

}  // namespace nccltune::worker
