// SPDX-License-Identifier: Apache-2.0
// The worker's life: commands in, answers out, one failure at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/common_measure.h"
#include "worker/common_seat.h"
#include "worker/protocol.h"

namespace nccltune::worker {

// What a worker program is made of. Errors are thrown as Failed.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual protocol::Ready open(const protocol::Setup& setup) = 0;
  // Bytes that all ranks need to find each other; none for the host worker.
  virtual std::vector<char> make_id() = 0;
  virtual protocol::Connected connect(const protocol::Connect& connect, const Membership& membership) = 0;
  // For the case at hand; throws Failed for what this library or device cannot do.
  virtual Outcome run(const Case& job) = 0;
  virtual void disconnect() = 0;
  // After a failure: best effort to leave peers and device alone. May hang; the supervisor ends it then.
  virtual void abandon() noexcept {}
};

// Serves commands until quit (returns 0), the end of the pipe or a failure (returns 1). The caller ends the process
// with _exit: destructors of a broken communicator may wait for ever.
int serve(Backend& backend);

// Throws Failed when the case cannot be measured as asked: counts, root, options that exclude each other.
void require_sane(const Case& job, uint32_t ranks);

// Throws Failed when buffers of `bytes` are too small for the case.
void require_room(const Case& job, const Shape& shape, uint32_t ranks, uint64_t bytes);

}  // namespace nccltune::worker
