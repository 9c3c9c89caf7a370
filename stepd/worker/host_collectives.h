// SPDX-License-Identifier: Apache-2.0
// The eleven collectives over Gloo: its own algorithms where it has one, else its send and receive.
#pragma once

#include <gloo/context.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/common_shape.h"

namespace nccltune::worker {

struct HostOperation {
  Case job;
  Shape shape;
  Ends ends;
  const std::vector<uint64_t>* sent = nullptr;      // alltoallv: elements to each rank
  const std::vector<uint64_t>* received = nullptr;  // and from each
};

// Runs one collective to its end on this rank.
class HostCollectives {
 public:
  explicit HostCollectives(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}
  void run(const HostOperation& operation);
  void barrier();
  void exchange(const void* mine, size_t bytes, void* all);

 private:
  void run_alone(const HostOperation& operation);
  void run_reduction(const HostOperation& operation);
  void reduce_scatter(const HostOperation& operation, const char* from);
  void reduce(const HostOperation& operation, const char* from);
  void all_reduce(const HostOperation& operation, const char* from);
  void broadcast(const HostOperation& operation);
  void all_gather(const HostOperation& operation);
  void gather(const HostOperation& operation);
  void scatter(const HostOperation& operation);
  void alltoall(const HostOperation& operation);
  void alltoallv(const HostOperation& operation);
  void hypercube(const HostOperation& operation);
  // Sends and receives at once, so that a ring cannot wait on itself.
  void swap(void* from, int to_rank, void* to, int from_rank, size_t bytes);

  uint32_t rank() const { return static_cast<uint32_t>(context_->rank); }
  uint32_t ranks() const { return static_cast<uint32_t>(context_->size); }

  std::shared_ptr<gloo::Context> context_;
  std::vector<char> scratch_, scratch2_;
};

}  // namespace nccltune::worker
