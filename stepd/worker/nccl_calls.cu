// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "worker/common_io.h"
#include "worker/nccl_calls.h"

namespace nccltune::worker {

using protocol::FailureKind;

static FailureKind kind_of(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
      return FailureKind::no_device;
    case cudaErrorMemoryAllocation:
      return FailureKind::out_of_memory;
    default:
      return FailureKind::cuda;
  }
}

static std::string remedy_for(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
      return "no GPU is visible to this task: look at --gpus, CUDA_VISIBLE_DEVICES and nvidia-smi";
    case cudaErrorInsufficientDriver:
      return "the driver is older than the CUDA runtime of this build: update the driver";
    case cudaErrorDevicesUnavailable:
      return "another process holds the GPU in EXCLUSIVE_PROCESS mode, or the MPS server has failed: look at "
             "nvidia-smi";
    case cudaErrorMemoryAllocation:
      return "ask for a smaller -e, or see with nvidia-smi who else uses the GPU";
    case cudaErrorNoKernelImageForDevice:
      return "build with NVCC_ARCH for this GPU";
    default:
      return "look at dmesg for an Xid of this GPU";
  }
}

void require(cudaError_t error, const std::string& call) {
  if (error == cudaSuccess) return;
  throw Failed(kind_of(error), "CUDA: " + call + ": " + cudaGetErrorString(error), remedy_for(error));
}

static std::string remedy_for(ncclResult_t result) {
  switch (result) {
    case ncclSystemError:
      return "run again with NCCL_DEBUG=WARN: NCCL then names the system call";
    case ncclInvalidUsage:
      return "run again with NCCL_DEBUG=WARN: two ranks on one GPU, or settings that contradict each other";
    case ncclInvalidArgument:
      return "this NCCL does not know the type or the operation, or not in this combination";
    case ncclRemoteError:
      return "another rank or the network failed first: look at the messages of the other ranks";
    default:
      return "run again with NCCL_DEBUG=WARN";
  }
}

void require(ncclResult_t result, const std::string& call, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  std::string text = "NCCL: " + call + ": " + ncclGetErrorString(result);
  const char* last = ncclGetLastError(comm);
  if (last && *last) text += std::string(": ") + last;
  throw Failed(FailureKind::nccl, text, remedy_for(result));
}

template <class Call>
static void look_up(const char* name, Call& call) {
  call = reinterpret_cast<Call>(::dlsym(RTLD_DEFAULT, name));
}

LateCalls find_late_calls() {
  LateCalls late{};
  look_up("ncclMemAlloc", late.mem_alloc);
  look_up("ncclMemFree", late.mem_free);
  look_up("ncclCommRegister", late.comm_register);
  look_up("ncclCommDeregister", late.comm_deregister);
  look_up("ncclCommInitRankScalable", late.init_scalable);
  look_up("ncclCommWindowRegister", late.window_register);
  look_up("ncclCommWindowDeregister", late.window_deregister);
  look_up("ncclAlltoAll", late.alltoall);
  look_up("ncclGather", late.gather);
  look_up("ncclScatter", late.scatter);
  return late;
}

std::string version_text(int code) {
  // 2.9 and newer: major * 10000 + minor * 100 + patch (nccl.h, NCCL_VERSION).
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

}  // namespace nccltune::worker
