// SPDX-License-Identifier: Apache-2.0
#include "worker/host_collectives.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstdint>
#include <cstring>

#include "worker/host_reduce.h"

namespace nccltune::worker {

// Gloo's options are templates over the element; only its size matters to it.
template <class F>
static void with_element(uint64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
  }
}

// Above the prefixes that Gloo gives its own collectives (gloo/types.h: one byte at the top).
static constexpr uint64_t kOwnSlot = uint64_t(0x7f) << 56;

void HostCollectives::swap(void* from, int to_rank, void* to, int from_rank, size_t bytes) {
  auto out = context_->createUnboundBuffer(from, bytes);
  auto in = context_->createUnboundBuffer(to, bytes);
  in->recv(from_rank, kOwnSlot);
  out->send(to_rank, kOwnSlot);
  out->waitSend(context_->getTimeout());
  in->waitRecv(context_->getTimeout());
}

// One rank: Gloo has no use for such a world, and there is only a copy to make.
void HostCollectives::run_alone(const HostOperation& o) {
  const uint64_t elements = o.shape.send;
  if (reduces(o.job.collective) && o.job.op == Op::mulsum) {
    multiply_by_scalar(o.job.type, 0, o.ends.from, o.ends.to, elements);
  } else if (o.ends.from != o.ends.to) {
    std::memcpy(o.ends.to, o.ends.from, elements * o.shape.element_bytes);
  }
}

void HostCollectives::all_reduce(const HostOperation& o, const char* from) {
  gloo::AllreduceOptions options(context_);
  with_element(o.shape.element_bytes, [&](auto element) {
    using T = decltype(element);
    if (from != o.ends.to) options.setInput(reinterpret_cast<T*>(const_cast<char*>(from)), o.shape.count);
    options.setOutput(reinterpret_cast<T*>(o.ends.to), o.shape.count);
  });
  options.setReduceFunction(reduce_function(o.job.type, o.job.op));
  gloo::allreduce(options);
}

void HostCollectives::reduce(const HostOperation& o, const char* from) {
  gloo::ReduceOptions options(context_);
  with_element(o.shape.element_bytes, [&](auto element) {
    using T = decltype(element);
    options.setInput(reinterpret_cast<T*>(const_cast<char*>(from)), o.shape.count);
    options.setOutput(reinterpret_cast<T*>(o.ends.to), o.shape.count);
  });
  options.setReduceFunction(reduce_function(o.job.type, o.job.op));
  options.setRoot(o.job.root);
  gloo::reduce(options);
}

// Ring: the partial result of a chunk passes every rank and ends, after ranks - 1 steps, at its owner.
void HostCollectives::reduce_scatter(const HostOperation& o, const char* from) {
  const size_t bytes = o.shape.count * o.shape.element_bytes;
  const int n = context_->size, me = context_->rank;
  scratch2_.resize(2 * bytes);
  const auto function = reduce_function(o.job.type, o.job.op);
  const char* partial = from + static_cast<size_t>((me - 1 + n) % n) * bytes;
  for (int step = 0; step + 1 < n; ++step) {
    char* incoming = scratch2_.data() + (step % 2) * bytes;
    swap(const_cast<char*>(partial), (me + 1) % n, incoming, (me - 1 + n) % n, bytes);
    const char* own = from + static_cast<size_t>((me - step - 2 + 2 * n) % n) * bytes;
    char* result = step + 2 == n ? o.ends.to : incoming;
    function(result, incoming, own, o.shape.count);
    partial = result;
  }
}

void HostCollectives::run_reduction(const HostOperation& o) {
  const char* from = o.ends.from;
  if (o.job.op == Op::mulsum) {
    scratch_.resize(o.shape.send * o.shape.element_bytes);
    multiply_by_scalar(o.job.type, rank(), from, scratch_.data(), o.shape.send);
    from = scratch_.data();
  }
  if (o.job.collective == Collective::all_reduce) all_reduce(o, from);
  if (o.job.collective == Collective::reduce) reduce(o, from);
  if (o.job.collective == Collective::reduce_scatter) reduce_scatter(o, from);
  const bool holds_result = o.job.collective != Collective::reduce || o.job.root == context_->rank;
  if (o.job.op == Op::avg && holds_result) divide_by_ranks(o.job.type, ranks(), o.ends.to, o.shape.receive);
}

void HostCollectives::broadcast(const HostOperation& o) {
  gloo::BroadcastOptions options(context_);
  with_element(o.shape.element_bytes, [&](auto element) {
    using T = decltype(element);
    const bool root = o.job.root == context_->rank;
    if (root && o.ends.from != o.ends.to) options.setInput(reinterpret_cast<T*>(o.ends.from), o.shape.count);
    options.setOutput(reinterpret_cast<T*>(o.ends.to), o.shape.count);
  });
  options.setRoot(o.job.root);
  gloo::broadcast(options);
}

void HostCollectives::all_gather(const HostOperation& o) {
  gloo::AllgatherOptions options(context_);
  with_element(o.shape.element_bytes, [&](auto element) {
    using T = decltype(element);
    const bool in_place = o.ends.from == o.ends.to + o.shape.count * o.shape.element_bytes * rank();
    if (!in_place) options.setInput(reinterpret_cast<T*>(o.ends.from), o.shape.count);
    options.setOutput(reinterpret_cast<T*>(o.ends.to), o.shape.receive);
  });
  gloo::allgather(options);
}

void HostCollectives::gather(const HostOperation& o) {
  gloo::GatherOptions options(context_);
  with_element(o.shape.element_bytes, [&](auto element) {
    using T = decltype(element);
    options.setInput(reinterpret_cast<T*>(o.ends.from), o.shape.count);
    if (o.job.root == context_->rank) options.setOutput(reinterpret_cast<T*>(o.ends.to), o.shape.receive);
  });
  options.setRoot(o.job.root);
  gloo::gather(options);
}

void HostCollectives::scatter(const HostOperation& o) {
  gloo::ScatterOptions options(context_);
  with_element(o.shape.element_bytes, [&](auto element) {
    using T = decltype(element);
    if (o.job.root == context_->rank) {
      std::vector<T*> pieces;
      for (uint32_t peer = 0; peer < ranks(); ++peer)
        pieces.push_back(reinterpret_cast<T*>(o.ends.from) + peer * o.shape.count);
      options.setInputs(pieces, o.shape.count);
    }
    options.setOutput(reinterpret_cast<T*>(o.ends.to), o.shape.count);
  });
  options.setRoot(o.job.root);
  gloo::scatter(options);
}

void HostCollectives::alltoall(const HostOperation& o) {
  gloo::AlltoallOptions options(context_);
  with_element(o.shape.element_bytes, [&](auto element) {
    using T = decltype(element);
    options.setInput(reinterpret_cast<T*>(o.ends.from), o.shape.send);
    options.setOutput(reinterpret_cast<T*>(o.ends.to), o.shape.receive);
  });
  gloo::alltoall(options);
}

void HostCollectives::alltoallv(const HostOperation& o) {
  gloo::AlltoallvOptions options(context_);
  with_element(o.shape.element_bytes, [&](auto element) {
    using T = decltype(element);
    options.setInput(reinterpret_cast<T*>(o.ends.from), {o.sent->begin(), o.sent->end()});
    options.setOutput(reinterpret_cast<T*>(o.ends.to), {o.received->begin(), o.received->end()});
  });
  gloo::alltoallv(options);
}

// all_gather by doubling: at each step pairs swap what they have.
void HostCollectives::hypercube(const HostOperation& o) {
  const size_t bytes = o.shape.count * o.shape.element_bytes;
  char* mine = o.ends.to + rank() * bytes;
  if (mine != o.ends.from) std::memcpy(mine, o.ends.from, bytes);
  for (uint32_t mask = 1; mask < ranks(); mask <<= 1) {
    const uint32_t have = rank() & ~(mask - 1), want = have ^ mask;
    const int peer = static_cast<int>(rank() ^ mask);
    swap(o.ends.to + have * bytes, peer, o.ends.to + want * bytes, peer, mask * bytes);
  }
}

void HostCollectives::run(const HostOperation& o) {
  if (ranks() == 1) return run_alone(o);
  if (o.shape.bytes() == 0) return;
  switch (o.job.collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
    case Collective::reduce:
      return run_reduction(o);
    case Collective::all_gather:
      return all_gather(o);
    case Collective::broadcast:
      return broadcast(o);
    case Collective::gather:
      return gather(o);
    case Collective::scatter:
      return scatter(o);
    case Collective::alltoall:
      return alltoall(o);
    case Collective::alltoallv:
      return alltoallv(o);
    case Collective::hypercube:
      return hypercube(o);
    case Collective::sendrecv: {
      const int n = context_->size, me = context_->rank;
      return swap(o.ends.from, (me + 1) % n, o.ends.to, (me - 1 + n) % n, o.shape.count * o.shape.element_bytes);
    }
  }
}

void HostCollectives::barrier() {
  if (ranks() == 1) return;
  gloo::BarrierOptions options(context_);
  gloo::barrier(options);
}

void HostCollectives::exchange(const void* mine, size_t bytes, void* all) {
  if (ranks() == 1) {
    std::memcpy(all, mine, bytes);
    return;
  }
  gloo::AllgatherOptions options(context_);
  options.setInput(static_cast<char*>(const_cast<void*>(mine)), bytes);
  options.setOutput(static_cast<char*>(all), bytes * ranks());
  gloo::allgather(options);
}

}  // namespace nccltune::worker
