// SPDX-License-Identifier: Apache-2.0
#include "bench/session.h"

#include <cstdint>
#include <ctime>
#include <set>

#include "bench/gather.h"
#include "bench/measure.h"
#include "bench/progress.h"
#include "bench/text.h"
#include "bench/trouble.h"

namespace nccltune::bench {
Session::Session(Options options, const Variables& environment, World& world, ChosenWorker worker, int signal_fd,
                 ViewNode view_node)
    : options_(std::move(options)),
      environment_(environment),
      world_(world),
      worker_(std::move(worker)),
      launch_(options_, environment_, worker_, world, signal_fd, {}),
      view_node_(std::move(view_node)),
      began_(Clock::now()) {}

void Session::keep(Row row) {
  for (const auto& reporter : reporters_) reporter->add(row);
  // A soak run must not grow without end: the samples are in the JSON, the notes need the summaries.
  row.out.samples.clear();
  row.in.samples.clear();
  rows_.push_back(std::move(row));
}

// Whether to run all sizes once more. Clocks differ between tasks, so with --duration rank 0 decides for all.
Result<bool> Session::another_cycle(int64_t done) {
  if (!options_.duration) return options_.cycles == 0 || done < options_.cycles;
  const bool wanted = seconds_since(began_) < *options_.duration;
  auto said =
      word_of_rank_0(world_, print("cycle.%lld", static_cast<long long>(done)), wanted ? "1" : "0", options_.timeout);
  if (!said) return said.error();
  return *said == "1";
}

std::optional<Fault> Session::measure() {
  Measurement measurement(launch_, options_, schedule_.max_bytes);
  Progress progress(reports() && options_.progress);
  const auto sizes = sizes_of(options_, schedule_.max_bytes);
  int64_t cycles = 0;
  for (bool more = true; more;) {
    size_t at = 0;
    for (const Sweep& sweep : schedule_.sweeps) {
      if (cycles == 0 && options_.warmup > 0)
        if (auto fault = measurement.warm_up(sweep)) return fault;
      for (const uint64_t size : sizes) {
        progress.show(size, at, sizes.size() * schedule_.sweeps.size(), sizes);
        Row row;
        if (auto fault = measurement.measure(sweep, size, cycles, row)) return fault;
        operation_bytes_ = measurement.device_bytes();
        keep(std::move(row));
        ++at;
      }
    }
    progress.clear();
    auto next = another_cycle(++cycles);
    if (!next) return Fault{Fault::Kind::hung, -1, next.error().text(), ""};
    more = *next;
  }
  return std::nullopt;
}

std::optional<Fault> Session::plan_work() {
  schedule_ = schedule_of(options_, launch_.digest(), launch_.sizes());
  if (schedule_.refusal.empty()) return std::nullopt;
  return Fault{Fault::Kind::failed, -1, schedule_.refusal, "", protocol::FailureKind::usage};
}

int Session::run() {
  world_.slate().write(Slate::done, kDoneKey);
  std::optional<Fault> fault = launch_.start();
  if (!fault) fault = plan_work();
  if (!fault) {
    if (reports()) {
      info_ = describe_run();
      open_reports();
    }
    for (const auto& reporter : reporters_) reporter->start(info_);
    fault = launch_.connect(schedule_.max_bytes);
  }
  if (!fault) fault = measure();
  return conclude(std::move(fault));
}

RunInfo Session::describe_run() const {
  RunInfo info;
  info.version = NCCLTUNE_VERSION;
  info.options = options_;
  info.ranks = ranks();
  info.max_bytes = schedule_.max_bytes;
  info.worker = worker_.kind;
  info.world = world_.name();
  info.started = std::time(nullptr);
  const auto value = [this](const char* name) {
    const auto at = environment_.find(name);
    return at == environment_.end() ? std::string() : at->second;
  };
  info.job = value("SLURM_JOB_ID");
  info.step = value("SLURM_STEP_ID");
  info.plan = named_settings(environment_);
  int rank = 0;
  std::map<std::string, int> hosts;
  const Groups& groups = launch_.groups();
  for (const TaskRecord& task : launch_.tasks())
    for (const WorkerRecord& w : task.workers) {
      hosts[w.host] = 1;
      const int group = groups.empty() ? 0 : static_cast<int>(groups.color[groups.of[rank]]);
      info.devices.push_back(
          {rank++, group, w.pid, w.host, w.device, w.bdf, w.uuid, w.name, w.library, w.cuda_runtime, w.cuda_driver});
      info.header_code = w.header_code;
      info.library_code = w.library_code;
    }
  info.nodes = info.group_nodes = std::max(world_.place().nodes, static_cast<int>(hosts.size()));
  info.group_ranks = launch_.sizes().front();
  if (groups.empty()) return info;
  for (size_t g = 0; g < groups.members.size(); ++g) info.groups.push_back({groups.color[g], groups.members[g]});
  std::set<int> nodes;
  for (const int member : groups.members[groups.of.front()])
    nodes.insert(launch_.tasks()[member / options_.workers()].node);
  info.group_nodes = static_cast<int>(nodes.size());
  return info;
}

}  // namespace nccltune::bench
