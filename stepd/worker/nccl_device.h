// SPDX-License-Identifier: Apache-2.0
// The one GPU of this worker and the memory on it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/nccl_calls.h"
#include "worker/protocol.h"

namespace nccltune::worker {

// Opens device `setup.device` and no other: on GPUs in EXCLUSIVE_PROCESS mode a touch of another one fails
// (NVIDIA/nccl-tests#369). Makes it current.
protocol::Ready open_device(const protocol::Setup& setup);

uint64_t free_device_bytes();

// Device memory from ncclMemAlloc where the library has it (NVLink SHARP and symmetric windows need it), else
// cudaMalloc.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const LateCalls& late, uint64_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();
  char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
  ncclResult_t (*nccl_free_)(void*) = nullptr;
};

}  // namespace nccltune::worker
