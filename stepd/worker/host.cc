// SPDX-License-Identifier: Apache-2.0
// The host worker: collectives in host memory over Gloo, for machines without a GPU and for the network's own sake.
#include <gloo/common/error.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "worker/common_identity.h"
#include "worker/common_io.h"
#include "worker/common_session.h"
#include "worker/host_transfer.h"
#include "worker/host_world.h"

namespace nccltune::worker {
namespace {

using protocol::FailureKind;

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

// Page-aligned and touched, so that the first operation does not pay for page faults.
Memory allocate(uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  const uint64_t whole = (bytes + kPage) / kPage * kPage;
  Memory memory(static_cast<char*>(std::aligned_alloc(kPage, whole)));
  if (!memory) {
    throw Failed(FailureKind::out_of_memory, "host memory: no " + std::to_string(whole) + " bytes for a buffer",
                 "ask for a smaller -e");
  }
  std::memset(memory.get(), 0, whole);
  return memory;
}

class HostBackend : public Backend {
 public:
  protocol::Ready open(const protocol::Setup& setup) override {
    seat_.setup = setup;
    if (const char* flip = std::getenv(protocol::kTestFlip); flip != nullptr && std::strcmp(flip, "1") == 0) {
      seat_.setup.fault = protocol::flip_element;
      seat_.setup.fault_rank = 0;
    }
    traffic_ = read_traffic();
    if (setup.null_stream)
      throw Failed(FailureKind::unsupported, "Gloo: has no streams; -y needs a GPU", "leave -y out");
    if (setup.memory)
      throw Failed(FailureKind::unsupported, "Gloo: takes no device memory; -M needs a GPU", "leave -M out");
    if (setup.registration) {
      throw Failed(FailureKind::unsupported, "Gloo: registers no buffers; -R needs a GPU", "leave -R out");
    }
    protocol::Ready ready{};
    copy_text(ready.name, "host memory (Gloo)");
    copy_text(ready.hostname, host_name());
    copy_text(ready.library, "Gloo");
    ready.free_bytes =
        static_cast<uint64_t>(::sysconf(_SC_AVPHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    ready.total_bytes =
        static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    ready.host_hash = host_hash();
    ready.types = (1u << kDataTypes) - 1;
    ready.pid = ::getpid();
    return ready;
  }

  std::vector<char> make_id() override { return {}; }

  protocol::Connected connect(const protocol::Connect& connect, const Membership& membership) override {
    disconnect();
    seat_ = seat_of(seat_.setup, connect, membership.group_of);
    protocol::Connected connected;
    const auto start = std::chrono::steady_clock::now();
    world_ = join_world(connect, seat_);
    connected.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    collectives_ = std::make_unique<HostCollectives>(world_.group);
    control_ = std::make_unique<HostCollectives>(world_.all);
    operations_ = uint64_t(connect.generation) << 32;
    const uint64_t bytes = std::max(connect.max_bytes, seat_.setup.max_bytes);
    if (bytes > bytes_) {
      for (Memory* memory : {&send_, &receive_, &kept_}) memory->reset();
      send_ = allocate(bytes + uint64_t(8) * seat_.setup.unalign);
      receive_ = allocate(bytes + uint64_t(8) * seat_.setup.unalign);
      if (seat_.setup.repeat) kept_ = allocate(bytes);
      bytes_ = bytes;
    }
    return connected;
  }

  Outcome run(const Case& job) override {
    if (!world_.all) throw Failed(FailureKind::internal, "worker: asked to run before it was connected");
    require_sane(job, seat_.ranks);
    const Shape shape = shape_of(job.collective, job.type, job.bytes, seat_.ranks, traffic_);
    require_room(job, shape, seat_.ranks, bytes_);
    const uint64_t offset = seat_.setup.unalign * shape.element_bytes;
    if (job.timeout_ms > 0)
      for (const auto& context : {world_.group, world_.all})
        context->setTimeout(std::chrono::milliseconds(job.timeout_ms));
    HostTransfer transfer(job, shape, seat_, traffic_, send_.get() + offset, receive_.get() + offset, kept_.get(),
                          *collectives_, *control_);
    try {
      return measure(job, shape, seat_, ++operations_, transfer);
    } catch (const gloo::Exception& error) {
      const bool late = std::strstr(error.what(), "imed out") != nullptr;
      throw Failed(late ? FailureKind::timeout : FailureKind::transport,
                   std::string("Gloo: ") + name_of(job.collective) + ": " + error.what(),
                   "look for an error of another rank above");
    }
  }

  void disconnect() override {
    if (!world_.all) return;
    control_->barrier();  // a connection that closes under a slow peer is an error there
    collectives_.reset();
    control_.reset();
    world_ = {};
  }

 private:
  Seat seat_;
  Traffic traffic_;
  HostWorld world_;
  std::unique_ptr<HostCollectives> collectives_, control_;  // of the group, of all ranks
  Memory send_, receive_, kept_;
  uint64_t bytes_ = 0, operations_ = 0;
};

}  // namespace
}  // namespace nccltune::worker

int main() {
  nccltune::worker::HostBackend backend;
  const int status = nccltune::worker::serve(backend);
  std::fflush(nullptr);
  ::_exit(status);
}
