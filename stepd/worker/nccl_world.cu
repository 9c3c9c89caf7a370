// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstring>
#include <thread>

#include "worker/common_io.h"
#include "worker/nccl_world.h"

namespace nccltune::worker {

using protocol::FailureKind;
using Clock = std::chrono::steady_clock;

// NCCL_WIN_COLL_SYMMETRIC of nccl.h since 2.27; older headers lack it.
static constexpr int kSymmetricWindow = 1;

static ncclConfig_t make_config(const protocol::Connect& connect) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = connect.blocking ? 1 : 0;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  if (connect.cta_policy >= 0) config.CTAPolicy = connect.cta_policy;
#else
  if (connect.cta_policy >= 0) {
    throw Failed(FailureKind::unsupported,
                 "NCCL: this build's headers (" + version_text(NCCL_VERSION_CODE) + ") know no CTA policy",
                 "build with NCCL 2.27 or newer");
  }
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  config.nvlinkCentricSched = 1;  // as nccl-tests: so that rows compare
#endif
  return config;
}

NcclWorld::NcclWorld(const LateCalls& late, const Seat& seat, const protocol::Connect& connect,
                     const std::vector<char>& ids)
    : late_(late), setup_(seat.setup), ranks_(static_cast<uint32_t>(connect.ranks)) {
  // -y: the null stream, which waits for all blocking streams of the process.
  if (!setup_.null_stream)
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const uint64_t before = free_device_bytes();
  const auto start = Clock::now();
  initialise(connect, ids);
  if (seat.is_split()) split(seat, connect);
  init_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  const uint64_t after = free_device_bytes();
  device_bytes_ = before > after ? before - after : 0;
  buffer_bytes_ = connect.max_bytes > setup_.max_bytes ? connect.max_bytes : setup_.max_bytes;
  const uint64_t padded = (buffer_bytes_ ? buffer_bytes_ : 8) + 8 * setup_.unalign;
  send_ = DeviceMemory(late_, padded);
  receive_ = DeviceMemory(late_, padded);
  if (setup_.repeat) kept_ = DeviceMemory(late_, padded);
  if (setup_.registration) register_buffers();
  const uint64_t filled = free_device_bytes();
  memory_of_buffers_ = after > filled ? after - filled : 0;
  reserve_control(1 << 20);
}

void NcclWorld::initialise(const protocol::Connect& connect, const std::vector<char>& ids) {
  const size_t count = static_cast<size_t>(connect.ids);
  if (count < 1 || connect.id_bytes != sizeof(ncclUniqueId) || ids.size() != count * sizeof(ncclUniqueId)) {
    throw Failed(FailureKind::internal,
                 "worker: " + std::to_string(ids.size()) + " bytes are no " + std::to_string(count) + " unique ids");
  }
  if (count > 1 && !late_.init_scalable) {
    throw Failed(FailureKind::unsupported, "NCCL: has no ncclCommInitRankScalable",
                 "several roots need NCCL 2.23 or newer");
  }
  std::vector<ncclUniqueId> unique(count);
  std::memcpy(unique.data(), ids.data(), ids.size());
  ncclConfig_t config = make_config(connect);
  require(ncclGroupStart(), "ncclGroupStart");
  const ncclResult_t result =
      count > 1 ? late_.init_scalable(&all_, connect.ranks, connect.rank, connect.ids, unique.data(), &config)
                : ncclCommInitRankConfig(&all_, connect.ranks, unique[0], connect.rank, &config);
  const ncclResult_t group = ncclGroupEnd();
  require(result, "ncclCommInitRank");
  require(group, "ncclCommInitRank");
  await(all_, connect, "ncclCommInitRank");
  comm_ = all_;
}

// nccl-tests makes an id for each group, and leaves its barriers to MPI. Here NCCL itself is what joins the ranks: the
// groups come out of the communicator of all of them, which afterwards serves the barriers and the exchange of results.
void NcclWorld::split(const Seat& seat, const protocol::Connect& connect) {
  ncclConfig_t config = make_config(connect);
  comm_ = nullptr;
  require(ncclCommSplit(all_, static_cast<int>(seat.group), static_cast<int>(seat.rank), &comm_, &config),
          "ncclCommSplit", all_);
  await(comm_, connect, "ncclCommSplit");
}

void NcclWorld::await(ncclComm_t comm, const protocol::Connect& connect, const char* call) {
  for (ncclResult_t state = ncclInProgress; !connect.blocking && state == ncclInProgress; std::this_thread::yield()) {
    require(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
    require(state, call);
  }
}

void NcclWorld::register_buffers() {
  const bool windows = setup_.registration == 2;
  if (windows ? !late_.window_register : !late_.comm_register) {
    throw Failed(FailureKind::unsupported, windows ? "NCCL: has no ncclCommWindowRegister; -R 2 needs NCCL 2.27"
                                                   : "NCCL: has no ncclCommRegister; -R 1 needs NCCL 2.19");
  }
  require(ncclGroupStart(), "ncclGroupStart");
  DeviceMemory* const memory[2] = {&send_, &receive_};
  for (int i = 0; i < 2; ++i) {
    if (windows) {
      require(late_.window_register(comm_, memory[i]->data(), memory[i]->bytes(), &handles_[i], kSymmetricWindow),
              "ncclCommWindowRegister", comm_);
    } else {
      require(late_.comm_register(comm_, memory[i]->data(), memory[i]->bytes(), &handles_[i]), "ncclCommRegister",
              comm_);
    }
  }
  require(ncclGroupEnd(), setup_.registration == 2 ? "ncclCommWindowRegister" : "ncclCommRegister", comm_);
}

void NcclWorld::deregister_buffers() noexcept {
  for (void*& handle : handles_) {
    if (!handle) continue;
    if (setup_.registration == 2 && late_.window_deregister) late_.window_deregister(comm_, handle);
    if (setup_.registration == 1 && late_.comm_deregister) late_.comm_deregister(comm_, handle);
    handle = nullptr;
  }
}

NcclWorld::~NcclWorld() {
  if (comm_) {
    deregister_buffers();
    ncclCommDestroy(comm_);
  }
  if (all_ && all_ != comm_) ncclCommDestroy(all_);
  if (control_) cudaFree(control_);
  if (staging_) cudaFreeHost(staging_);
  if (stream_) cudaStreamDestroy(stream_);
}

void NcclWorld::wait(int timeout_ms) {
  const auto start = Clock::now();
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) require(state, "waiting for the stream");
    ncclResult_t health = ncclSuccess;
    for (ncclComm_t comm : {comm_, all_}) {
      require(ncclCommGetAsyncError(comm, &health), "ncclCommGetAsyncError");
      require(health, "while the GPU worked", comm);
      if (comm_ == all_) break;
    }
    if (timeout_ms > 0 && Clock::now() - start > std::chrono::milliseconds(timeout_ms)) {
      throw Failed(FailureKind::timeout, "NCCL: no end of the operation in " + std::to_string(timeout_ms) + " ms (-T)",
                   "a rank is late, dead or unreachable: the report names what each rank was doing");
    }
    std::this_thread::yield();
  }
}

void NcclWorld::barrier(int timeout_ms) {
  if (ranks_ == 1) return;
  require(ncclAllReduce(control_, control_, 1, ncclInt32, ncclSum, all_, stream_), "ncclAllReduce of a barrier", all_);
  wait(timeout_ms);
}

void NcclWorld::reserve_control(size_t bytes) {
  if (bytes <= control_bytes_) return;
  if (control_) cudaFree(control_);
  if (staging_) cudaFreeHost(staging_);
  control_ = staging_ = nullptr;
  require(cudaMalloc(reinterpret_cast<void**>(&control_), bytes), "cudaMalloc of a small buffer");
  require(cudaMallocHost(reinterpret_cast<void**>(&staging_), bytes), "cudaMallocHost of a small buffer");
  require(cudaMemset(control_, 0, bytes), "cudaMemset");
  control_bytes_ = bytes;
}

void NcclWorld::exchange(const void* mine, size_t bytes, void* all, int timeout_ms) {
  if (ranks_ == 1) {
    std::memcpy(all, mine, bytes);
    return;
  }
  const size_t own = (bytes + 255) / 256 * 256;
  reserve_control(own + bytes * ranks_);
  std::memcpy(staging_, mine, bytes);
  require(cudaMemcpyAsync(control_, staging_, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
  require(ncclAllGather(control_, control_ + own, bytes, ncclInt8, all_, stream_), "ncclAllGather of results", all_);
  require(cudaMemcpyAsync(staging_ + own, control_ + own, bytes * ranks_, cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync");
  wait(timeout_ms);
  std::memcpy(all, staging_ + own, bytes * ranks_);
}

void NcclWorld::abort() noexcept {
  if (comm_) ncclCommAbort(comm_);
  if (all_ && all_ != comm_) ncclCommAbort(all_);
  comm_ = all_ = nullptr;
}

}  // namespace nccltune::worker
