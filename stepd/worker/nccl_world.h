// SPDX-License-Identifier: Apache-2.0
// A communicator, its stream and its buffers. Where ranks are split, also the communicator of all ranks, for barriers
// and for the exchange of results.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/common_measure.h"
#include "worker/nccl_device.h"

namespace nccltune::worker {

class NcclWorld {
 public:
  // `ids`: connect.ids unique ids in a row. Throws Failed.
  NcclWorld(const LateCalls& late, const Seat& seat, const protocol::Connect& connect, const std::vector<char>& ids);
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  // Spins on the stream and on the communicator's health, as nccl-tests does. `timeout_ms` 0: for ever.
  void wait(int timeout_ms);
  // One element over the ranks of all groups, and the wait for it.
  void barrier(int timeout_ms);
  // Over the ranks of all groups.
  void exchange(const void* mine, size_t bytes, void* all, int timeout_ms);
  void abort() noexcept;

  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }
  // Shifted by Setup::unalign elements of the size given.
  char* send(uint64_t element_bytes) const { return send_.data() + setup_.unalign * element_bytes; }
  char* receive(uint64_t element_bytes) const { return receive_.data() + setup_.unalign * element_bytes; }
  // Room for a copy of what is received; null without Setup::repeat.
  char* kept() const { return kept_.data(); }
  const LateCalls& late() const { return late_; }
  uint64_t buffer_bytes() const { return buffer_bytes_; }
  double init_seconds() const { return init_seconds_; }
  uint64_t device_bytes() const { return device_bytes_; }
  uint64_t memory_of_buffers() const { return memory_of_buffers_; }

 private:
  void initialise(const protocol::Connect& connect, const std::vector<char>& ids);
  void split(const Seat& seat, const protocol::Connect& connect);
  void await(ncclComm_t comm, const protocol::Connect& connect, const char* call);
  void register_buffers();
  void deregister_buffers() noexcept;
  void reserve_control(size_t bytes);

  const LateCalls& late_;
  protocol::Setup setup_;
  uint32_t ranks_ = 1;         // of all groups
  ncclComm_t all_ = nullptr;   // every rank
  ncclComm_t comm_ = nullptr;  // those that are measured together; the same as all_ without a split
  cudaStream_t stream_ = nullptr;
  DeviceMemory send_, receive_, kept_;
  uint64_t buffer_bytes_ = 0;
  void* handles_[2] = {nullptr, nullptr};
  char* control_ = nullptr;  // device: this rank's part, then all ranks'
  char* staging_ = nullptr;  // host, pinned, laid out alike: a copy from pageable memory would wait without a deadline
  size_t control_bytes_ = 0;
  double init_seconds_ = 0;
  uint64_t device_bytes_ = 0, memory_of_buffers_ = 0;
};

}  // namespace nccltune::worker
