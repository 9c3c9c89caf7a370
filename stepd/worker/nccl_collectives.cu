// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "worker/nccl_collectives.h"

namespace nccltune::worker {

// The protocol's types and operations are NCCL's own, in NCCL's order; fp8 is 10 and 11 since 2.24.
static_assert(static_cast<int>(DataType::half) == ncclFloat16 && static_cast<int>(DataType::double64) == ncclFloat64);
static_assert(static_cast<int>(Op::min) == ncclMin && static_cast<int>(Op::avg) == ncclAvg);
static ncclDataType_t nccl_type(DataType type) { return static_cast<ncclDataType_t>(static_cast<int>(type)); }

namespace {

// What each function below needs, under short names.
struct Call {
  const NcclOperation& o;
  const NcclWorld& world;
  char* from;
  char* to;
  ncclDataType_t type;
  ncclComm_t comm;
  cudaStream_t stream;
  size_t bytes;  // of `count` elements

  void send(const char* data, size_t count, uint32_t peer) const {
    require(ncclSend(data, count, type, static_cast<int>(peer), comm, stream), "ncclSend", comm);
  }
  void receive(char* data, size_t count, uint32_t peer) const {
    require(ncclRecv(data, count, type, static_cast<int>(peer), comm, stream), "ncclRecv", comm);
  }
};

struct Group {
  explicit Group(ncclComm_t comm) : comm(comm) { require(ncclGroupStart(), "ncclGroupStart", comm); }
  void end() { require(ncclGroupEnd(), "ncclGroupEnd", comm); }
  ncclComm_t comm;
};

// As nccl-tests: the premultiplying operation is made and freed around each use.
void reduce_by(const Call& c, ncclRedOp_t op) {
  const size_t count = c.o.shape.count;
  switch (c.o.job.collective) {
    case Collective::all_reduce:
      return require(ncclAllReduce(c.from, c.to, count, c.type, op, c.comm, c.stream), "ncclAllReduce", c.comm);
    case Collective::reduce_scatter:
      return require(ncclReduceScatter(c.from, c.to, count, c.type, op, c.comm, c.stream), "ncclReduceScatter", c.comm);
    default:
      return require(ncclReduce(c.from, c.to, count, c.type, op, c.o.job.root, c.comm, c.stream), "ncclReduce", c.comm);
  }
}

void reduction(const Call& c) {
  if (c.o.job.op != Op::mulsum) return reduce_by(c, static_cast<ncclRedOp_t>(static_cast<int>(c.o.job.op)));
  uint64_t scalar = 0;
  with_format(c.o.job.type, [&](auto format) {
    const auto bits = scalar_bits<decltype(format)>(c.o.rank);
    std::memcpy(&scalar, &bits, sizeof bits);
  });
  ncclRedOp_t op;
  require(ncclRedOpCreatePreMulSum(&op, &scalar, c.type, ncclScalarHostImmediate, c.comm), "ncclRedOpCreatePreMulSum",
          c.comm);
  reduce_by(c, op);
  require(ncclRedOpDestroy(op, c.comm), "ncclRedOpDestroy", c.comm);
}

void alltoall(const Call& c) {
  const size_t count = c.o.shape.count;
  if (const auto call = c.world.late().alltoall)
    return require(call(c.from, c.to, count, c.type, c.comm, c.stream), "ncclAlltoAll", c.comm);
  Group group(c.comm);
  for (uint32_t peer = 0; peer < c.o.ranks; ++peer) {
    c.send(c.from + peer * c.bytes, count, peer);
    c.receive(c.to + peer * c.bytes, count, peer);
  }
  group.end();
}

void alltoallv(const Call& c) {
  Group group(c.comm);
  const char* from = c.from;
  char* to = c.to;
  for (uint32_t peer = 0; peer < c.o.ranks; ++peer) {
    if (c.o.sent[peer]) c.send(from, c.o.sent[peer], peer);
    if (c.o.received[peer]) c.receive(to, c.o.received[peer], peer);
    from += c.o.sent[peer] * c.o.shape.element_bytes;
    to += c.o.received[peer] * c.o.shape.element_bytes;
  }
  group.end();
}

void gather(const Call& c) {
  const size_t count = c.o.shape.count;
  const uint32_t root = static_cast<uint32_t>(c.o.job.root);
  if (count == 0) return;
  if (const auto call = c.world.late().gather) {
    return require(call(c.from, c.to, count, c.type, c.o.job.root, c.comm, c.stream), "ncclGather", c.comm);
  }
  Group group(c.comm);
  c.send(c.from, count, root);
  for (uint32_t peer = 0; c.o.rank == root && peer < c.o.ranks; ++peer) c.receive(c.to + peer * c.bytes, count, peer);
  group.end();
}

void scatter(const Call& c) {
  const size_t count = c.o.shape.count;
  const uint32_t root = static_cast<uint32_t>(c.o.job.root);
  if (count == 0) return;
  if (const auto call = c.world.late().scatter) {
    return require(call(c.from, c.to, count, c.type, c.o.job.root, c.comm, c.stream), "ncclScatter", c.comm);
  }
  Group group(c.comm);
  for (uint32_t peer = 0; c.o.rank == root && peer < c.o.ranks; ++peer) c.send(c.from + peer * c.bytes, count, peer);
  c.receive(c.to, count, root);
  group.end();
}

void sendrecv(const Call& c) {
  Group group(c.comm);
  c.send(c.from, c.o.shape.count, (c.o.rank + 1) % c.o.ranks);
  c.receive(c.to, c.o.shape.count, (c.o.rank + c.o.ranks - 1) % c.o.ranks);
  group.end();
}

void hypercube(const Call& c) {
  char* const mine = c.to + c.o.rank * c.bytes;
  if (mine != c.from)
    require(cudaMemcpyAsync(mine, c.from, c.bytes, cudaMemcpyDeviceToDevice, c.stream), "cudaMemcpyAsync");
  for (uint32_t mask = 1; mask < c.o.ranks; mask <<= 1) {
    const uint32_t have = c.o.rank & ~(mask - 1), want = have ^ mask;
    Group group(c.comm);
    c.send(c.to + have * c.bytes, c.o.shape.count * mask, c.o.rank ^ mask);
    c.receive(c.to + want * c.bytes, c.o.shape.count * mask, c.o.rank ^ mask);
    group.end();
  }
}

}  // namespace

void enqueue_collective(const NcclOperation& o, const Ends& ends, const NcclWorld& world) {
  const Call c{o,
               world,
               ends.from,
               ends.to,
               nccl_type(o.job.type),
               world.comm(),
               world.stream(),
               o.shape.count * o.shape.element_bytes};
  switch (o.job.collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
    case Collective::reduce:
      return reduction(c);
    case Collective::all_gather:
      return require(ncclAllGather(c.from, c.to, o.shape.count, c.type, c.comm, c.stream), "ncclAllGather", c.comm);
    case Collective::broadcast:
      return require(ncclBroadcast(c.from, c.to, o.shape.count, c.type, o.job.root, c.comm, c.stream), "ncclBroadcast",
                     c.comm);
    case Collective::alltoall:
      return alltoall(c);
    case Collective::alltoallv:
      return alltoallv(c);
    case Collective::gather:
      return gather(c);
    case Collective::scatter:
      return scatter(c);
    case Collective::sendrecv:
      return sendrecv(c);
    case Collective::hypercube:
      return hypercube(c);
  }
}

}  // namespace nccltune::worker
