// SPDX-License-Identifier: Apache-2.0
#include "worker/common_io.h"
#include "worker/nccl_transfer.h"

namespace nccltune::worker {

using protocol::FailureKind;

NcclTransfer::NcclTransfer(const Case& job, const Shape& shape, const Seat& seat, const Traffic& traffic,
                           NcclWorld& world)
    : seat_(seat),
      traffic_(traffic),
      world_(world),
      send_(world.send(shape.element_bytes)),
      receive_(world.receive(shape.element_bytes)) {
  operation_.job = job;
  operation_.shape = shape;
  operation_.rank = seat.rank;
  operation_.ranks = seat.ranks;
  if (job.collective == Collective::alltoallv) {
    operation_.sent = sent_to(shape, seat.rank, seat.ranks, traffic);
    operation_.received = received_from(shape, seat.rank, seat.ranks, traffic);
  }
}

NcclTransfer::~NcclTransfer() {
  for (cudaEvent_t event : marks_) cudaEventDestroy(event);
  if (graph_) cudaGraphExecDestroy(graph_);
  if (tally_) cudaFree(tally_);
}

void NcclTransfer::fill(bool in_place, uint64_t seed, Input input) {
  const Shape& shape = operation_.shape;
  require(cudaMemsetAsync(receive_, 0, shape.receive * shape.element_bytes, world_.stream()), "cudaMemsetAsync");
  Pattern pattern = sent_pattern(operation_.job, seat_.rank, seat_.ranks, seed);
  pattern.rough = input == Input::rough;
  char* const to = ends_of(shape, send_, receive_, seat_.rank, in_place, 0).from;
  enqueue_fill(to, shape.send, operation_.job.type, pattern, world_.stream());
  finish();
}

void NcclTransfer::start(bool in_place, uint64_t iteration) {
  const uint64_t shift = shift_of(operation_.shape, operation_.job.max_bytes, iteration);
  enqueue_collective(operation_, ends_of(operation_.shape, send_, receive_, seat_.rank, in_place, shift), world_);
}

void NcclTransfer::begin_group() { require(ncclGroupStart(), "ncclGroupStart", world_.comm()); }
void NcclTransfer::end_group() { require(ncclGroupEnd(), "ncclGroupEnd", world_.comm()); }

void NcclTransfer::begin_capture() {
  // Thread-local: NCCL may allocate while it is recorded (connections that are made at first use).
  require(cudaStreamBeginCapture(world_.stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

void NcclTransfer::end_capture() {
  cudaGraph_t graph = nullptr;
  require(cudaStreamEndCapture(world_.stream(), &graph), "cudaStreamEndCapture");
  const cudaError_t error = cudaGraphInstantiateWithFlags(&graph_, graph, 0);
  cudaGraphDestroy(graph);
  require(error, "cudaGraphInstantiate");
}

void NcclTransfer::launch_graph() { require(cudaGraphLaunch(graph_, world_.stream()), "cudaGraphLaunch"); }

void NcclTransfer::drop_graph() {
  require(cudaGraphExecDestroy(graph_), "cudaGraphExecDestroy");
  graph_ = nullptr;
}

void NcclTransfer::reserve_marks(uint32_t count) {
  while (marks_.size() < count) {
    marks_.push_back(nullptr);
    require(cudaEventCreate(&marks_.back()), "cudaEventCreate");
  }
}

void NcclTransfer::mark(uint32_t i) { require(cudaEventRecord(marks_[i], world_.stream()), "cudaEventRecord"); }

double NcclTransfer::seconds_between(uint32_t i, uint32_t j) {
  float milliseconds = 0;
  require(cudaEventElapsedTime(&milliseconds, marks_[i], marks_[j]), "cudaEventElapsedTime");
  return milliseconds * 1e-3;
}

void NcclTransfer::exchange(const void* mine, size_t bytes, void* all) {
  world_.exchange(mine, bytes, all, operation_.job.timeout_ms);
}

char* NcclTransfer::received(bool in_place) const {
  return ends_of(operation_.shape, send_, receive_, seat_.rank, in_place, 0).to;
}

uint64_t NcclTransfer::bits_at(const char* data, uint64_t element) const {
  const uint64_t size = operation_.shape.element_bytes;
  uint64_t bits = 0;
  require(cudaMemcpy(&bits, data + element * size, size, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return bits;
}

void NcclTransfer::spoil(char* data, const std::vector<Run>& runs, protocol::Fault fault) {
  const int64_t at = fault_element(seat_, runs, fault);
  if (at < 0) return;
  const uint64_t size = operation_.shape.element_bytes;
  const uint64_t bits = bits_at(data, static_cast<uint64_t>(at)) ^ fault_mask(operation_.job.type, runs, at);
  require(cudaMemcpy(data + static_cast<uint64_t>(at) * size, &bits, size, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void NcclTransfer::clear_tally() {
  if (!tally_) require(cudaMalloc(reinterpret_cast<void**>(&tally_), sizeof *tally_), "cudaMalloc of a small buffer");
  require(cudaMemsetAsync(&tally_->wrong, 0, sizeof tally_->wrong, world_.stream()), "cudaMemsetAsync");
  require(cudaMemsetAsync(&tally_->first, 0xff, sizeof tally_->first, world_.stream()), "cudaMemsetAsync");
}

Tally NcclTransfer::read_tally() {
  Tally tally{0, ~0ull};
  finish();  // with its deadline; the copy below has none
  require(cudaMemcpy(&tally, tally_, sizeof tally, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return tally;
}

Findings NcclTransfer::check(bool in_place, uint64_t seed) {
  const Case& job = operation_.job;
  char* const data = received(in_place);
  const auto runs = expected_runs(job, operation_.shape, seat_.rank, seat_.ranks, traffic_, seed);
  spoil(data, runs, protocol::flip_element);
  clear_tally();
  for (const Run& run : runs) enqueue_check(data, run, job.type, tally_, world_.stream());
  const Tally tally = read_tally();
  Findings findings;
  findings.wrong = static_cast<int64_t>(tally.wrong);
  if (tally.wrong == 0) return findings;
  findings.first = static_cast<int64_t>(tally.first);
  findings.expected = expected_text(job.type, locate(runs, tally.first));
  findings.found = value_text(job.type, bits_at(data, tally.first));
  return findings;
}

void NcclTransfer::keep(bool in_place) {
  if (!world_.kept()) throw Failed(FailureKind::internal, "worker: asked to repeat without room for a copy");
  const uint64_t size = operation_.shape.element_bytes;
  const auto runs = expected_runs(operation_.job, operation_.shape, seat_.rank, seat_.ranks, traffic_, 0);
  for (const Span& span : spans_of(runs)) {
    require(cudaMemcpyAsync(world_.kept() + span.from * size, received(in_place) + span.from * size, span.count * size,
                            cudaMemcpyDeviceToDevice, world_.stream()),
            "cudaMemcpyAsync");
  }
  finish();
}

Findings NcclTransfer::compare_with_kept(bool in_place, bool last) {
  const DataType type = operation_.job.type;
  char* const data = received(in_place);
  const auto runs = expected_runs(operation_.job, operation_.shape, seat_.rank, seat_.ranks, traffic_, 0);
  if (last) spoil(data, runs, protocol::waver);
  clear_tally();
  for (const Span& span : spans_of(runs)) enqueue_difference(data, world_.kept(), span, type, tally_, world_.stream());
  const Tally tally = read_tally();
  Findings findings;
  findings.wrong = static_cast<int64_t>(tally.wrong);
  if (tally.wrong == 0) return findings;
  findings.first = static_cast<int64_t>(tally.first);
  findings.expected = value_text(type, bits_at(world_.kept(), tally.first));
  findings.found = value_text(type, bits_at(data, tally.first));
  return findings;
}

}  // namespace nccltune::worker
