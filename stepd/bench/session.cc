// SPDX-License-Identifier: Apache-2.0
#include "bench/session.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "bench/progress.h"
#include "bench/text.h"

extern char** environ;

namespace nccltune::bench {
namespace {

constexpr const char* kRecordKey = "record";
constexpr const char* kFaultMark = "FAULT ";  // instead of a record: "FAULT 2 text", the number a FailureKind
constexpr int kFirstBatch = 10;               // iterations; 6 are the fewest that give an interval

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) return true;
  return false;
}

void take_half(const CollectiveInfo& info, const protocol::CaseResult& result, const protocol::Placement& placement,
               std::string_view& samples, int ranks, size_t skip, Half& half) {
  half.ran = placement.ran != 0;
  half.checked = placement.checked != 0;
  half.seconds = placement.seconds;
  half.cpu_seconds = placement.cpu_seconds;
  half.algbw = algorithm_gbs(info, result.bytes, placement.seconds, ranks);
  half.busbw = bus_gbs(info, half.algbw, ranks);
  half.wrong += placement.wrong;
  half.bad_ranks += placement.bad_ranks;
  if (placement.first.rank >= 0 && half.wrong_rank < 0) {
    half.wrong_rank = placement.first.rank;
    half.wrong_element = placement.first.element;
    half.expected = text_of(placement.first.expected);
    half.found = text_of(placement.first.found);
  }
  const size_t bytes =
      std::min<size_t>(placement.samples, samples.size() / sizeof(protocol::Sample)) * sizeof(protocol::Sample);
  const size_t had = half.samples.size();
  half.samples.resize(had + bytes / sizeof(protocol::Sample));
  std::memcpy(half.samples.data() + had, samples.data(), bytes);
  samples.remove_prefix(bytes);
  half.summary = summarise(half.samples, skip, ranks);
}

}  // namespace

Session::Session(Options options, Variables environment, World& world, Alarm& alarm, ChosenWorker worker, int signal_fd)
    : options_(std::move(options)),
      environment_(std::move(environment)),
      world_(world),
      alarm_(alarm),
      worker_(std::move(worker)),
      crew_(world, alarm, signal_fd, world.place().rank * options_.workers(), options_.workers()),
      began_(Clock::now()) {}

std::optional<Fault> Session::start_workers() {
  std::vector<WorkerProcess::Start> starts;
  for (int i = 0; i < options_.workers(); ++i) {
    WorkerProcess::Start start;
    start.program = worker_.program;
    start.label = print("rank %d", world_.place().rank * options_.workers() + i);
    if (worker_.kind == "nccl" && options_.data_path && !environment_.count("NCCL_DEBUG")) {
      char name[] = "/tmp/nccl-tune-log-XXXXXX";  // private: mkstemp makes it 0600
      const int fd = mkstemp(name);
      if (fd >= 0) {
        close(fd);
        log_files_.push_back(name);
        start.environment = {
            {"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,GRAPH,TUNING"}, {"NCCL_DEBUG_FILE", name}};
      }
    }
    starts.push_back(std::move(start));
  }
  return crew_.start(starts);
}

std::optional<Fault> Session::open_devices() {
  const auto wanted = environment_.find("NCCL_TESTS_DEVICE");
  const auto base = wanted == environment_.end() ? std::nullopt : parse_integer(wanted->second, 0, 1 << 16);
  std::vector<std::optional<std::string>> payloads;
  for (int i = 0; i < crew_.size(); ++i) {
    protocol::Setup setup;
    // The worker takes the only device where it sees but one.
    setup.device = static_cast<int32_t>(base.value_or(world_.place().local_rank * options_.workers())) + i;
    setup.registration = options_.registration;
    setup.check = options_.check;
    setup.unalign = static_cast<uint32_t>(options_.unalign);
    setup.fault = options_.fault;
    setup.fault_rank = options_.fault_rank;
    setup.fault_element = options_.fault_element;
    payloads.emplace_back(bytes_of(setup));
  }
  auto answers = crew_.ask(protocol::Kind::setup, payloads, protocol::Kind::ready, options_.timeout);
  if (answers.fault) return answers.fault;
  for (const auto& answer : answers.of) {
    const auto ready = answer->as<protocol::Ready>();
    if (!ready) return Fault{Fault::Kind::failed, -1, "the worker's answer is too short; is it of this build?", ""};
    ready_.push_back(*ready);
  }
  return std::nullopt;
}

std::optional<Fault> Session::exchange_records(std::optional<Fault> early) {
  const auto began = Clock::now();
  const Place& place = world_.place();
  TaskRecord record{NCCLTUNE_VERSION, worker_.kind, hash_options(options_), place.node, {}};
  if (!early) {
    std::vector<std::optional<std::string>> asked(crew_.size());
    for (const int root : root_ranks(ranks()))
      if (root / options_.workers() == place.rank) asked[root % options_.workers()] = "";
    auto answers = crew_.ask(protocol::Kind::make_id, asked, protocol::Kind::id, options_.timeout);
    early = answers.fault;
    for (int i = 0; i < crew_.size(); ++i) {
      record.workers.push_back(record_of(ready_[i]));
      if (answers.of[i]) record.workers.back().id = answers.of[i]->payload;
    }
  }
  const auto failed = [](const Error& error) { return Fault{Fault::Kind::hung, -1, error.text(), error.remedy}; };
  const std::string text = early ? kFaultMark + std::to_string(static_cast<int>(early->failure)) + " " + early->text +
                                       (early->remedy.empty() ? "" : "; " + early->remedy)
                                 : pack(record);
  if (auto error = world_.put(kRecordKey, text)) return failed(*error);
  if (auto error = world_.commit()) return failed(*error);
  if (auto error = world_.fence(true, in_seconds(options_.timeout))) return early ? *early : failed(*error);

  std::vector<std::string> faults;
  auto kind = protocol::FailureKind::usage;
  for (int task = 0; task < place.size; ++task) {
    auto bytes = world_.get(task, kRecordKey, in_seconds(10));
    if (!bytes) return failed(bytes.error());
    if (*bytes && (*bytes)->starts_with(kFaultMark)) {
      const size_t blank = (*bytes)->find(' ', std::strlen(kFaultMark));
      kind = static_cast<protocol::FailureKind>(std::atoi((*bytes)->c_str() + std::strlen(kFaultMark)));
      faults.push_back((*bytes)->substr(blank + 1));
      continue;
    }
    auto parsed = *bytes ? unpack(**bytes) : std::nullopt;
    if (parsed)
      tasks_.push_back(std::move(*parsed));
    else
      faults.push_back(print("task %d: %s", task, *bytes ? "its record is of another build" : "it left no record"));
  }
  exchange_seconds_ = seconds_since(began);
  if (faults.empty()) faults = contradictions(tasks_);
  // All tasks have read the same, and end alike.
  if (!faults.empty()) return Fault{Fault::Kind::failed, -1, join(faults, "\n"), "", kind};
  return std::nullopt;
}

std::optional<Fault> Session::connect() {
  const auto began = Clock::now();
  std::string ids;
  int count = 0;
  uint32_t id_bytes = 0;
  const bool scalable = [&] {  // ncclCommInitRankScalable
    for (const TaskRecord& task : tasks_)
      for (const WorkerRecord& worker : task.workers)
        if (worker.library_code < 22300) return false;
    return true;
  }();
  for (const int root : root_ranks(ranks())) {
    const std::string& id = tasks_[root / options_.workers()].workers[root % options_.workers()].id;
    if (count > 0 && !scalable) break;
    ids += id;
    id_bytes = static_cast<uint32_t>(id.size());
    ++count;
  }
  std::vector<std::optional<std::string>> payloads;
  for (int i = 0; i < crew_.size(); ++i) {
    protocol::Connect connect;
    connect.ranks = ranks();
    connect.rank = world_.place().rank * options_.workers() + i;
    connect.ids = count;
    connect.id_bytes = id_bytes;
    connect.max_bytes = max_bytes_;
    connect.cta_policy = options_.cta_policy;
    payloads.emplace_back(std::string(bytes_of(connect)) + ids);
  }
  // NCCL's bootstrap costs about 1 s for 1,000 ranks; a slow container or address look-up much more.
  auto answers =
      crew_.ask(protocol::Kind::connect, payloads, protocol::Kind::connected, options_.timeout + ranks() * 0.05);
  if (answers.fault) return answers.fault;
  for (const auto& answer : answers.of)
    if (const auto connected = answer->as<protocol::Connected>()) {
      library_seconds_ = std::max(library_seconds_, connected->seconds);
      library_bytes_ = std::max(library_bytes_, connected->device_bytes);
    }
  connect_seconds_ = seconds_since(began);
  return std::nullopt;
}

// What a size may take is judged by the one before: no bound fits 8 B and 64 GiB, nor NVLink and TCP.
double Session::patience_for(uint64_t bytes) const {
  const double growth = last_bytes_ > 0 ? std::max(1.0, static_cast<double>(bytes) / last_bytes_) : 1;
  return options_.timeout + 10 * last_case_seconds_ * growth;
}

std::optional<Fault> Session::warm_up(const Sweep& sweep) {
  for (const uint64_t size : warmup_sizes_of(options_, max_bytes_)) {
    protocol::Case job;
    job.collective = options_.collective;
    job.type = sweep.type;
    job.op = sweep.op;
    job.root = sweep.root;
    job.bytes = size;
    job.max_bytes = max_bytes_;
    job.warmup = options_.warmup;
    job.check = 0;
    job.blocking = options_.blocking;
    job.timeout_ms = options_.timeout_s * 1000;
    job.warm_only = 1;
    crew_.describe_work(
        print("%s, %s", std::string(info_of(options_.collective).name).c_str(), human_size(size).c_str()));
    const auto began = Clock::now();
    auto answers =
        crew_.ask_all(protocol::Kind::run, std::string(bytes_of(job)), protocol::Kind::result, patience_for(size));
    if (answers.fault) return answers.fault;
    last_case_seconds_ = seconds_since(began);
    last_bytes_ = size;
  }
  return std::nullopt;
}

std::optional<Fault> Session::run_case(const protocol::Case& job, Row& row, double& seconds) {
  crew_.describe_work(print("%s, %s %s", std::string(info_of(options_.collective).name).c_str(),
                            human_size(job.bytes).c_str(), std::string(type_name(job.type)).c_str()));
  const auto began = Clock::now();
  auto answers =
      crew_.ask_all(protocol::Kind::run, std::string(bytes_of(job)), protocol::Kind::result, patience_for(job.bytes));
  if (answers.fault) return answers.fault;
  seconds = last_case_seconds_ = seconds_since(began);
  last_bytes_ = job.bytes;
  const Message& message = *answers.of.front();
  const auto result = message.as<protocol::CaseResult>();
  if (!result) return Fault{Fault::Kind::failed, -1, "the worker's answer is too short; is it of this build?", ""};
  row.bytes = result->bytes;
  row.elements = result->elements;
  row.iterations += job.iterations;
  row.stamp = std::time(nullptr);
  std::string_view samples = message.after<protocol::CaseResult>();
  const CollectiveInfo& info = info_of(job.collective);
  const size_t skip = row.iterations > options_.skip ? options_.skip : 0;
  take_half(info, *result, result->out_of_place, samples, ranks(), skip, row.out);
  take_half(info, *result, result->in_place, samples, ranks(), skip, row.in);
  return std::nullopt;
}

// More batches of iterations until both medians are known as well as asked. Every task has the same samples, and so
// decides alike; the clock, which differs, is bounded by the sum of the samples.
std::optional<Fault> Session::narrow_interval(protocol::Case job, Row& row) {
  constexpr int64_t kMostIterations = 100000;
  const auto wide = [this](const Half& half) {
    if (half.summary.count == 0) return false;
    const auto width = half.summary.relative_half_width();
    return !width || *width > *options_.ci;
  };
  const auto measured = [](const Half& half) { return half.summary.mean * static_cast<double>(half.summary.count); };
  double out_total = row.out.seconds * job.iterations, in_total = row.in.seconds * job.iterations;
  job.check = 0;
  job.warmup = 0;
  while ((wide(row.out) || wide(row.in)) && row.iterations < kMostIterations &&
         measured(row.out) + measured(row.in) < options_.ci_seconds) {
    const Half out = row.out, in = row.in;
    double seconds = 0;
    job.iterations = static_cast<int32_t>(std::min<int64_t>(row.iterations, kMostIterations - row.iterations));
    if (auto fault = run_case(job, row, seconds)) return fault;
    out_total += row.out.seconds * job.iterations;
    in_total += row.in.seconds * job.iterations;
    // The verification of the first batch stands; the time shown is the mean over all batches.
    row.out.checked = out.checked, row.in.checked = in.checked;
  }
  const auto mean = [&](Half& half, double total) {
    half.seconds = total / static_cast<double>(row.iterations);
    half.algbw = algorithm_gbs(info_of(job.collective), row.bytes, half.seconds, ranks());
    half.busbw = bus_gbs(info_of(job.collective), half.algbw, ranks());
  };
  mean(row.out, out_total);
  mean(row.in, in_total);
  return std::nullopt;
}

std::optional<Fault> Session::measure_size(const Sweep& sweep, uint64_t size, int64_t cycle) {
  protocol::Case job;
  job.collective = options_.collective;
  job.type = sweep.type;
  job.op = sweep.op;
  job.root = sweep.root;
  job.bytes = size;
  job.max_bytes = max_bytes_;
  job.iterations = options_.ci ? kFirstBatch : options_.iterations;
  job.warmup = 0;  // done for all sizes before
  job.aggregate = options_.aggregate;
  job.check = options_.check;
  job.blocking = options_.blocking;
  job.graph = options_.graph;
  job.average = options_.average;
  job.cpu_time = options_.cpu_time;
  job.per_iteration = (options_.statistics || options_.per_iteration || options_.ci) && !options_.graph;
  job.timeout_ms = options_.timeout_s * 1000;

  Row row;
  row.asked = size;
  row.type = type_name(sweep.type);
  row.op = op_name(sweep.op);
  row.root = sweep.root;
  row.cycle = cycle;
  double seconds = 0;
  if (auto fault = run_case(job, row, seconds)) return fault;
  if (options_.ci)
    if (auto fault = narrow_interval(job, row)) return fault;
  for (const auto& reporter : reporters_) reporter->add(row);
  // A soak run must not grow without end: the samples are in the JSON, the notes need the summaries.
  row.out.samples.clear();
  row.in.samples.clear();
  rows_.push_back(std::move(row));
  return std::nullopt;
}

// Whether to run all sizes once more. Clocks differ between tasks, so with --duration rank 0 decides for all.
Result<bool> Session::another_cycle(int64_t done) {
  if (!options_.duration) return options_.cycles == 0 || done < options_.cycles;
  const bool wanted = seconds_since(began_) < *options_.duration;
  if (world_.place().size == 1) return wanted;
  const std::string key = print("cycle.%lld", static_cast<long long>(done));
  if (world_.place().rank == 0) {
    if (auto error = world_.put(key, wanted ? "1" : "0")) return *error;
    if (auto error = world_.commit()) return *error;
    return wanted;
  }
  auto said = world_.get(0, key, in_seconds(options_.timeout));
  if (!said) return said.error();
  if (!*said) return Error{"rank 0", "did not say whether to go on", "", ""};
  return **said == "1";
}

std::optional<Fault> Session::measure() {
  Progress progress(reports() && options_.progress);
  const auto sizes = sizes_of(options_, max_bytes_);
  int64_t cycles = 0;
  for (bool more = true; more;) {
    size_t at = 0;
    for (const Sweep& sweep : sweeps_) {
      if (cycles == 0 && options_.warmup > 0)
        if (auto fault = warm_up(sweep)) return fault;
      for (const uint64_t size : sizes) {
        progress.show(size, at, sizes.size() * sweeps_.size(), sizes);
        if (auto fault = measure_size(sweep, size, cycles)) return fault;
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
  const auto refuse = [](std::string text) {
    return Fault{Fault::Kind::failed, -1, std::move(text), "", protocol::FailureKind::usage};
  };
  const uint64_t limit = largest_message(tasks_, options_.check > 0);
  max_bytes_ = std::min(options_.max_bytes, limit);
  uint32_t types = ~0u;
  for (const TaskRecord& task : tasks_)
    for (const WorkerRecord& worker : task.workers) types &= worker.types;
  if (!options_.all_types)
    for (const auto type : options_.types)
      if (!(types >> static_cast<uint32_t>(type) & 1))
        return refuse(print("-d: this library or device has no %s", std::string(type_name(type)).c_str()));
  sweeps_ = sweeps_of(options_, ranks(), types);
  if (max_bytes_ < options_.min_bytes)
    return refuse(print("-b: %s is more than memory allows, %s", human_size(options_.min_bytes).c_str(),
                        human_size(limit).c_str()));
  if (info_of(options_.collective).has_root && options_.root >= ranks())
    return refuse(print("-r: there is no rank %d among %d", options_.root, ranks()));
  if (sweeps_.empty()) return refuse("-d: this library has none of the datatypes that were asked for");
  if (options_.collective == protocol::Collective::hypercube && (ranks() & (ranks() - 1)))
    return refuse(print("hypercube: needs a power of two of ranks, not %d", ranks()));
  return std::nullopt;
}

int Session::run() {
  std::optional<Fault> fault = start_workers();
  if (!fault) fault = open_devices();
  start_seconds_ = seconds_since(began_);
  if (!fault || fault->kind != Fault::Kind::signal) fault = exchange_records(std::move(fault));
  if (!fault) fault = plan_work();
  if (!fault) {
    info_ = describe_run();
    if (reports()) open_reports();
    for (const auto& reporter : reporters_) reporter->start(info_);
    fault = connect();
  }
  if (!fault) fault = measure();
  return conclude(std::move(fault));
}

RunInfo Session::describe_run() const {
  RunInfo info;
  info.version = NCCLTUNE_VERSION;
  info.options = options_;
  info.ranks = ranks();
  info.max_bytes = max_bytes_;
  info.worker = worker_.kind;
  info.world = world_.name();
  info.started = std::time(nullptr);
  const auto value = [this](const char* name) {
    const auto at = environment_.find(name);
    return at == environment_.end() ? std::string() : at->second;
  };
  info.job = value("SLURM_JOB_ID");
  info.step = value("SLURM_STEP_ID");
  for (const auto& [name, text] : environment_)
    if (starts_with_any(name, {"NCCL_", "UCX_", "SHARP_", "NCCLTUNE_"})) info.plan.emplace_back(name, text);
  int rank = 0;
  std::map<std::string, int> hosts;
  for (const TaskRecord& task : tasks_)
    for (const WorkerRecord& w : task.workers) {
      hosts[w.host] = 1;
      info.devices.push_back(
          {rank++, 0, w.pid, w.host, w.device, w.bdf, w.uuid, w.name, w.library, w.cuda_runtime, w.cuda_driver});
      info.header_code = w.header_code;
      info.library_code = w.library_code;
    }
  info.nodes = std::max(world_.place().nodes, static_cast<int>(hosts.size()));
  return info;
}

}  // namespace nccltune::bench
