// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "worker/common_format.h"
#include "worker/common_identity.h"
#include "worker/common_io.h"
#include "worker/nccl_device.h"

namespace nccltune::worker {

using protocol::FailureKind;

static std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

// The types that the library and the device can reduce. fp8 came with NCCL 2.24, and needs compute capability 9.0.
static uint32_t types_of(int library, const cudaDeviceProp& properties) {
  uint32_t types = (1u << kDataTypes) - 1;
  const uint32_t fp8 = 1u << static_cast<int>(DataType::f8e4m3) | 1u << static_cast<int>(DataType::f8e5m2);
  if (library < 22400 || properties.major < 9) types &= ~fp8;
  return types;
}

uint64_t free_device_bytes() {
  size_t free = 0, total = 0;
  require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

protocol::Ready open_device(const protocol::Setup& asked) {
  protocol::Ready ready{};
  require(cudaGetDeviceCount(&ready.visible_devices), "cudaGetDeviceCount");
  // A task that Slurm bound to one GPU sees that one as device 0, whatever its local rank (NVIDIA/nccl-tests#300). Two
  // ranks on one GPU are told apart by the supervisor, which knows all UUIDs.
  protocol::Setup setup = asked;
  if (ready.visible_devices == 1) setup.device = 0;
  if (setup.device < 0 || setup.device >= ready.visible_devices) {
    throw Failed(FailureKind::no_device,
                 "GPU " + std::to_string(setup.device) + ": not visible; " + std::to_string(ready.visible_devices) +
                     " can be seen",
                 "ask Slurm for one GPU a task (--gpus-per-task=1), or start fewer tasks a node");
  }
  require(cudaSetDevice(setup.device), "cudaSetDevice");
  require(cudaFree(nullptr),
          "opening GPU " + std::to_string(setup.device));  // the context, before CUDA 12 made it in cudaSetDevice
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, setup.device), "cudaGetDeviceProperties");
  int library = 0;
  require(ncclGetVersion(&library), "ncclGetVersion");
  require(cudaRuntimeGetVersion(&ready.cuda_runtime), "cudaRuntimeGetVersion");
  require(cudaDriverGetVersion(&ready.cuda_driver), "cudaDriverGetVersion");
  char bdf[16];
  require(cudaDeviceGetPCIBusId(bdf, sizeof bdf, setup.device), "cudaDeviceGetPCIBusId");
  std::string address = bdf;
  for (char& c : address) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;  // as sysfs writes it

  copy_text(ready.name, properties.name);
  copy_text(ready.bdf, address);
  copy_text(ready.uuid, uuid_text(properties.uuid));
  copy_text(ready.hostname, host_name());
  copy_text(ready.library, "NCCL " + version_text(library));
  ready.library_code = library;
  ready.header_code = NCCL_VERSION_CODE;
  ready.device = setup.device;
  ready.free_bytes = free_device_bytes();
  ready.total_bytes = properties.totalGlobalMem;
  ready.host_hash = host_hash();
  ready.types = types_of(library, properties);
  ready.pid = ::getpid();
  return ready;
}

DeviceMemory::DeviceMemory(const LateCalls& late, uint64_t bytes) : bytes_(bytes) {
  void* pointer = nullptr;
  if (late.mem_alloc && late.mem_free) {
    nccl_free_ = late.mem_free;
    const ncclResult_t result = late.mem_alloc(&pointer, bytes);
    if (result != ncclSuccess && bytes > free_device_bytes())
      require(cudaErrorMemoryAllocation, "ncclMemAlloc of " + std::to_string(bytes) + " bytes");
    require(result, "ncclMemAlloc of " + std::to_string(bytes) + " bytes");
  } else {
    require(cudaMalloc(&pointer, bytes), "cudaMalloc of " + std::to_string(bytes) + " bytes");
  }
  data_ = static_cast<char*>(pointer);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(nccl_free_, other.nccl_free_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (!data_) return;
  if (nccl_free_) {
    nccl_free_(data_);
  } else {
    cudaFree(data_);
  }
}

}  // namespace nccltune::worker
