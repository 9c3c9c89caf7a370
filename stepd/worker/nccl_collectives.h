// SPDX-License-Identifier: Apache-2.0
// The eleven collectives, enqueued on the world's stream.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/common_shape.h"
#include "worker/nccl_world.h"

namespace nccltune::worker {

struct NcclOperation {
  Case job;
  Shape shape;
  uint32_t rank = 0, ranks = 1;
  std::vector<uint64_t> sent, received;  // alltoallv: elements to and from each rank
};

// Throws Failed for what NCCL refuses.
void enqueue_collective(const NcclOperation& operation, const Ends& ends, const NcclWorld& world);

}  // namespace nccltune::worker
