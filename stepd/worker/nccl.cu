// SPDX-License-Identifier: Apache-2.0
// The NCCL worker: one GPU, one rank.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "worker/common_io.h"
#include "worker/common_session.h"
#include "worker/nccl_transfer.h"

namespace nccltune::worker {
namespace {

using protocol::FailureKind;

class NcclBackend : public Backend {
 public:
  protocol::Ready open(const protocol::Setup& setup) override {
    seat_.setup = setup;
    traffic_ = read_traffic();
    late_ = find_late_calls();
    const protocol::Ready ready = open_device(setup);
    types_ = ready.types;
    return ready;
  }

  std::vector<char> make_id() override {
    ncclUniqueId id;
    require(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return {id.internal, id.internal + sizeof id.internal};
  }

  protocol::Connected connect(const protocol::Connect& connect, const Membership& membership) override {
    world_.reset();
    seat_ = seat_of(seat_.setup, connect, membership.group_of);
    world_ = std::make_unique<NcclWorld>(late_, seat_, connect, membership.ids);
    operations_ = uint64_t(connect.generation) << 32;
    protocol::Connected connected;
    connected.seconds = world_->init_seconds();
    connected.device_bytes = world_->device_bytes();
    connected.buffer_bytes = world_->memory_of_buffers();
    free_bytes_ = seat_.setup.memory ? free_device_bytes() : 0;
    return connected;
  }

  Outcome run(const Case& job) override {
    if (!world_) throw Failed(FailureKind::internal, "worker: asked to run before it was connected");
    require_sane(job, seat_.ranks);
    if (!(types_ >> static_cast<int>(job.type) & 1)) {
      throw Failed(FailureKind::unsupported, "NCCL: this library or GPU does not know the type",
                   "fp8 needs NCCL 2.24 and compute capability 9.0");
    }
    const Shape shape = shape_of(job.collective, job.type, job.bytes, seat_.ranks, traffic_);
    require_room(job, shape, seat_.ranks, world_->buffer_bytes());
    NcclTransfer transfer(job, shape, seat_, traffic_, *world_);
    Outcome outcome = measure(job, shape, seat_, ++operations_, transfer);
    if (seat_.setup.memory) {
      const uint64_t now = free_device_bytes();
      outcome.result.device_bytes = free_bytes_ > now ? free_bytes_ - now : 0;
    }
    return outcome;
  }

  void disconnect() override { world_.reset(); }

  void abandon() noexcept override {
    if (world_) world_->abort();
  }

 private:
  Seat seat_;
  Traffic traffic_;
  LateCalls late_{};
  uint32_t types_ = 0;
  uint64_t operations_ = 0;
  uint64_t free_bytes_ = 0;  // when the buffers had been made
  std::unique_ptr<NcclWorld> world_;
};

}  // namespace
}  // namespace nccltune::worker

int main() {
  nccltune::worker::NcclBackend backend;
  const int status = nccltune::worker::serve(backend);
  std::fflush(nullptr);
  ::_exit(status);
}
