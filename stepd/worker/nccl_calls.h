// SPDX-License-Identifier: Apache-2.0
// Calls into CUDA and NCCL: errors as Failed with the libraries' own words, and the calls that came after NCCL 2.18,
// looked up at run time so that one build runs with any newer library.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <string>

namespace nccltune::worker {

// `call` names what was tried: "cudaSetDevice".
void require(cudaError_t error, const std::string& call);
// `comm` may be null.
void require(ncclResult_t result, const std::string& call, ncclComm_t comm = nullptr);

// Null where the loaded library has no such call. The window is a pointer in every version (older headers lack its
// type).
struct LateCalls {
  ncclResult_t (*mem_alloc)(void** pointer, size_t bytes);                                    // 2.19
  ncclResult_t (*mem_free)(void* pointer);                                                    // 2.19
  ncclResult_t (*comm_register)(ncclComm_t comm, void* buffer, size_t bytes, void** handle);  // 2.19
  ncclResult_t (*comm_deregister)(ncclComm_t comm, void* handle);                             // 2.19
  ncclResult_t (*init_scalable)(ncclComm_t* comm, int ranks, int rank, int ids, ncclUniqueId* id,
                                ncclConfig_t* config);                                                     // 2.23
  ncclResult_t (*window_register)(ncclComm_t comm, void* buffer, size_t bytes, void** window, int flags);  // 2.27
  ncclResult_t (*window_deregister)(ncclComm_t comm, void* window);                                        // 2.27
  using Exchange = ncclResult_t (*)(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                                    cudaStream_t stream);
  using Rooted = ncclResult_t (*)(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream);
  Exchange alltoall;  // 2.28
  Rooted gather;      // 2.28
  Rooted scatter;     // 2.28
};
LateCalls find_late_calls();

// "2.28.3" from ncclGetVersion's code.
std::string version_text(int code);

}  // namespace nccltune::worker
