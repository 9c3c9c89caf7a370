// SPDX-License-Identifier: Apache-2.0
#include "worker/common_session.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>

#include "worker/common_io.h"

namespace nccltune::worker {

using protocol::FailureKind;
using protocol::Kind;

static Failed usage(const std::string& text) { return Failed(FailureKind::usage, text); }

void require_sane(const Case& job, uint32_t ranks) {
  const std::string what = name_of(job.collective);
  if (what == "?" || size_of(job.type) == 0) throw usage("worker: unknown collective or type");
  if (job.iterations < 1 || job.aggregate < 1) throw usage(what + ": iterations and aggregation must be at least 1");
  if (job.warmup < 0 || job.check < 0 || job.graph < 0) throw usage(what + ": a count is negative");
  if (job.repeat < 0 || job.repeat == 1) throw usage(what + ": one run repeats nothing");
  if (job.graph > 0 && job.blocking != 0) throw usage(what + ": a graph holds no waits; leave -z out with -G");
  if (has_root(job.collective) && (job.root < 0 || job.root >= static_cast<int32_t>(ranks))) {
    throw usage(what + ": root " + std::to_string(job.root) + " is no rank; there are " + std::to_string(ranks));
  }
  if (reduces(job.collective) && job.op == Op::none) throw usage(what + ": needs an operation");
  if (job.collective == Collective::hypercube && (ranks & (ranks - 1)) != 0) {
    throw usage("hypercube: " + std::to_string(ranks) + " ranks are no power of two");
  }
}

void require_room(const Case& job, const Shape& shape, uint32_t ranks, uint64_t bytes) {
  // In place, scatter and reduce_scatter use all ranks' parts of the receive buffer, also where one is received.
  uint64_t needed = shape.bytes();
  if (shape.receive_offset) needed = std::max(needed, shape.receive_offset * ranks * shape.element_bytes);
  if (job.max_bytes > bytes || needed > job.max_bytes) {
    throw usage(std::string(name_of(job.collective)) + ": needs buffers of " +
                std::to_string(std::max(needed, job.max_bytes)) + " bytes, there are " +
                std::to_string(std::min(bytes, job.max_bytes)));
  }
}

static void answer_run(Backend& backend, const Message& message) {
  const Outcome outcome = backend.run(payload_as<Case>(message));
  send(Kind::result, message.header.sequence,
       {{&outcome.result, sizeof outcome.result},
        {outcome.samples.data(), outcome.samples.size() * sizeof(protocol::Sample)},
        {outcome.groups.data(), outcome.groups.size() * sizeof(protocol::GroupTime)}});
}

static void answer_connect(Backend& backend, const Message& message) {
  const auto connect = payload_as<protocol::Connect>(message);
  const Membership membership =
      membership_of(connect, message.payload.data() + sizeof connect, message.payload.size() - sizeof connect);
  send_phase("communicator");
  const protocol::Connected connected = backend.connect(connect, membership);
  send(Kind::connected, message.header.sequence, {{&connected, sizeof connected}});
}

static void answer(Backend& backend, const Message& message) {
  const uint32_t sequence = message.header.sequence;
  switch (message.header.kind) {
    case Kind::setup: {
      send_phase("device");
      const protocol::Ready ready = backend.open(payload_as<protocol::Setup>(message));
      return send(Kind::ready, sequence, {{&ready, sizeof ready}});
    }
    case Kind::make_id: {
      const std::vector<char> id = backend.make_id();
      return send(Kind::id, sequence, {{id.data(), id.size()}});
    }
    case Kind::connect:
      return answer_connect(backend, message);
    case Kind::run:
      return answer_run(backend, message);
    case Kind::disconnect:
      send_phase("disconnect");
      backend.disconnect();
      return send(Kind::disconnected, sequence, {});
    default:
      throw Failed(FailureKind::internal,
                   "worker: unknown message " + std::to_string(static_cast<unsigned>(message.header.kind)));
  }
}

int serve(Backend& backend) {
  std::signal(SIGPIPE, SIG_IGN);
  // Into a pipe stdio keeps 4 KiB back, NCCL's log with its last words: a worker that is killed would take them along.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  watch_supervisor();
  Message message;
  try {
    while (receive(message)) {
      if (message.header.kind == Kind::quit) return 0;
      answer(backend, message);
    }
    return 1;
  } catch (const Failed& failed) {
    send_failure(failed, message.header.sequence);
  } catch (const std::exception& error) {
    send_failure(Failed(FailureKind::internal, std::string("worker: ") + error.what()), message.header.sequence);
  }
  backend.abandon();
  return 1;
}

}  // namespace nccltune::worker
