// SPDX-License-Identifier: Apache-2.0
#include "bench/launch.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "bench/gather.h"
#include "bench/text.h"
#include "bench/trouble.h"

namespace nccltune::bench {
namespace {

constexpr const char* kFaultMark = "FAULT ";  // instead of a record: "FAULT 2 text", the number a FailureKind
constexpr double kPartingSeconds = 10;

Fault of_world(const Error& error) { return Fault{Fault::Kind::hung, -1, error.text(), error.remedy}; }

std::string pack(const Fault& fault) {
  return kFaultMark + std::to_string(static_cast<int>(fault.failure)) + " " + fault.text +
         (fault.remedy.empty() ? "" : "; " + fault.remedy);
}

std::optional<Fault> unpack_fault(const std::string& bytes) {
  if (!bytes.starts_with(kFaultMark)) return std::nullopt;
  const char* number = bytes.c_str() + std::strlen(kFaultMark);
  return Fault{Fault::Kind::failed, -1, bytes.substr(bytes.find(' ', std::strlen(kFaultMark)) + 1), "",
               static_cast<protocol::FailureKind>(std::atoi(number))};
}

const Fault kShortAnswer{Fault::Kind::failed, -1, "the worker's answer is too short; is it of this build?", ""};

}  // namespace

Launch::Launch(const Options& options, const Variables& environment, const ChosenWorker& worker, World& world,
               int signal_fd, Setting setting)
    : options_(options),
      worker_(worker),
      world_(world),
      number_(setting.number),
      changes_(std::move(setting.environment)),
      environment_(changed(environment, changes_)),
      one_of_many_(setting.one_of_many),
      alarm_(world, key("alarm")),
      crew_(world, alarm_, signal_fd, first_rank(), per_task(), key("s") + "/") {}

Launch::~Launch() {
  crew_.kill_all();
  for (const std::string& file : log_files_) unlink(file.c_str());
}

std::string Launch::key(const char* name) const { return print("%s.%d", name, number_); }

std::optional<Fault> Launch::start() {
  const auto began = Clock::now();
  Slate& slate = world_.slate();
  slate.write(Slate::place, print("%d\t%d\t%s", first_rank(), per_task(), world_.place().hostname.c_str()));
  // One more: the others may be a launch ahead by the time.
  slate.write(Slate::alarm, key("alarm") + "\n" + print("alarm.%d", number_ + 1));
  early_ = start_workers();
  if (!early_) early_ = open_devices();
  times_.start = seconds_since(began);
  if (early_ && early_->kind == Fault::Kind::signal && !one_of_many_) return early_;
  return exchange_records();
}

std::optional<Fault> Launch::start_workers() {
  std::vector<WorkerProcess::Start> starts;
  for (int i = 0; i < per_task(); ++i) {
    WorkerProcess::Start start;
    start.program = worker_.program;
    start.label = print("rank %d", first_rank() + i);
    start.environment = changes_;
    if (worker_.kind == "nccl" && options_.data_path && !environment_.count("NCCL_DEBUG")) {
      // TUNING writes a line for each operation on rank 0, which then takes 10 to 20 % longer below 1 MiB over NVLink.
      const char* subsystems = options_.algorithms ? "INIT,ENV,NET,GRAPH,TUNING" : "INIT,ENV,NET,GRAPH";
      char name[] = "/tmp/nccl-tune-log-XXXXXX";  // private: mkstemp makes it 0600
      const int fd = mkstemp(name);
      if (fd >= 0) {
        close(fd);
        log_files_.emplace_back(name);
        for (const auto& [variable, value] : {std::pair("NCCL_DEBUG", "INFO"),
                                              {"NCCL_DEBUG_SUBSYS", subsystems},
                                              {"NCCL_DEBUG_FILE", static_cast<const char*>(name)}})
          start.environment.emplace_back(variable, value);
      }
    }
    starts.push_back(std::move(start));
  }
  return crew_.start(starts);
}

std::optional<Fault> Launch::open_devices() {
  const auto wanted = environment_.find("NCCL_TESTS_DEVICE");
  const auto base = wanted == environment_.end() ? std::nullopt : parse_integer(wanted->second, 0, 1 << 16);
  std::vector<std::optional<std::string>> payloads;
  for (int i = 0; i < crew_.size(); ++i) {
    protocol::Setup setup;
    // The worker takes the only device where it sees but one.
    setup.device = static_cast<int32_t>(base.value_or(world_.place().local_rank * per_task())) + i;
    setup.registration = options_.registration;
    setup.check = options_.check;
    setup.unalign = static_cast<uint32_t>(options_.unalign);
    setup.null_stream = options_.null_stream;
    setup.memory = options_.memory_report;
    setup.repeat = options_.repeat > 0;
    setup.fault = options_.fault;
    setup.fault_rank = options_.fault_rank;
    setup.fault_element = options_.fault_element;
    payloads.emplace_back(bytes_of(setup));
  }
  auto answers = crew_.ask(protocol::Kind::setup, payloads, protocol::Kind::ready, options_.timeout);
  if (answers.fault) return answers.fault;
  for (const auto& answer : answers.of) {
    const auto ready = answer->as<protocol::Ready>();
    if (!ready) return kShortAnswer;
    ready_.push_back(*ready);
  }
  return std::nullopt;
}

std::optional<Fault> Launch::make_ids(TaskRecord& record) {
  std::vector<std::optional<std::string>> asked(crew_.size());
  for (const int root : root_ranks(ranks()))
    if (root / per_task() == world_.place().rank) asked[root % per_task()] = "";
  auto answers = crew_.ask(protocol::Kind::make_id, asked, protocol::Kind::id, options_.timeout);
  for (int i = 0; i < crew_.size(); ++i) {
    record.workers.push_back(record_of(ready_[i]));
    if (answers.of[i]) record.workers.back().id = answers.of[i]->payload;
  }
  return answers.fault;
}

std::optional<Fault> Launch::exchange_records() {
  const auto began = Clock::now();
  TaskRecord record{NCCLTUNE_VERSION, worker_.kind, hash_options(options_), world_.place().node, {}};
  if (!early_) early_ = make_ids(record);
  const std::string text = early_ ? pack(*early_) : pack(record);
  if (auto error = world_.put(key("record"), text)) return of_world(*error);
  if (auto error = world_.commit()) return of_world(*error);
  // A task that dies before its record comes to no fence: its keeper raises the alarm. With more launches to come all
  // go through the exchange as long as they live.
  alarm_.watch(true);
  const auto over = [this] { return one_of_many_ ? alarm_.heard_of_loss() : alarm_.heard().has_value(); };
  const auto error = world_.fence_unless(over, in_seconds(patience()));
  std::optional<Fault> fault;
  if (!error) fault = world_.place().rank == 0 ? tell_digest() : hear_digest(over);
  alarm_.watch(false);
  if (error && early_) return early_;
  if (error && alarm_.heard()) return Fault{Fault::Kind::alarm, -1, *alarm_.heard(), ""};
  if (error) {
    fault = of_world(*error);
    if (const auto missing = tasks_without(world_, key("record")); !missing.empty())
      fault->text = join(missing, ", ") + print(": not at the start within %.0f s", patience());
    return fault;
  }
  if (fault) return fault;
  if (options_.split) groups_ = groups_of(*options_.split, digest_.nodes, per_task());
  times_.exchange = seconds_since(began);
  return std::nullopt;
}

double Launch::patience() const { return one_of_many_ ? 3 * options_.timeout + 30 : options_.timeout; }

std::optional<Fault> Launch::read_records() {
  std::vector<std::string> faults;
  auto kind = protocol::FailureKind::usage;
  for (int task = 0; task < world_.place().size; ++task) {
    auto bytes = world_.get(task, key("record"), in_seconds(10));
    if (!bytes) return of_world(bytes.error());
    if (const auto told = *bytes ? unpack_fault(**bytes) : std::nullopt) {
      kind = told->failure;
      faults.push_back(told->text);
      continue;
    }
    auto parsed = *bytes ? unpack(**bytes) : std::nullopt;
    if (parsed)
      tasks_.push_back(std::move(*parsed));
    else
      faults.push_back(print("task %d: %s", task, *bytes ? "its record is of another build" : "it left no record"));
  }
  if (faults.empty()) faults = contradictions(tasks_);
  if (!faults.empty()) return Fault{Fault::Kind::failed, -1, join(faults, "\n"), "", kind};
  return std::nullopt;
}

std::optional<Fault> Launch::tell_digest() {
  auto fault = read_records();
  if (!fault) digest_ = digest_of(tasks_, options_.check > 0 || options_.repeat > 0, options_.split.has_value());
  if (world_.place().size == 1) return fault;
  const std::string text = fault ? pack(*fault) : pack(digest_);
  if (auto error = tell_others(world_, key("digest"), text, options_.timeout)) return of_world(*error);
  if (fault) world_.fence(in_seconds(kPartingSeconds));
  return fault;
}

std::optional<Fault> Launch::hear_digest(const std::function<bool()>& over) {
  const auto told = hear_rank_0(world_, key("digest"), options_.timeout, over);
  if (!told) return of_world(told.error());
  const std::optional<std::string>& text = *told;
  if (!text && alarm_.heard()) return Fault{Fault::Kind::alarm, -1, *alarm_.heard(), ""};
  if (!text)
    return Fault{Fault::Kind::hung, -1, print("rank 0 did not tell the start within %.0f s", options_.timeout),
                 "see what rank 0 said, or give it more time with --timeout"};
  if (auto fault = unpack_fault(*text)) {
    world_.fence(in_seconds(kPartingSeconds));  // a node whose tasks have left answers nobody: rank 0 waits for all
    return fault;
  }
  auto digest = unpack_digest(*text);
  if (!digest || digest->ids.empty())
    return Fault{Fault::Kind::hung, -1, "rank 0 is of another build", "run the same nccl-tune on all nodes"};
  digest_ = std::move(*digest);
  return std::nullopt;
}

std::vector<int> Launch::sizes() const {
  if (groups_.empty()) return {ranks()};
  std::vector<int> sizes;
  for (const auto& members : groups_.members) sizes.push_back(static_cast<int>(members.size()));
  std::swap(sizes.front(), sizes[groups_.of.front()]);
  return sizes;
}

std::optional<Fault> Launch::connect(uint64_t max_bytes) {
  const auto began = Clock::now();
  const std::string ids = join(digest_.ids, "");
  std::vector<std::optional<std::string>> payloads;
  for (int i = 0; i < crew_.size(); ++i) {
    protocol::Connect connect;
    connect.ranks = ranks();
    connect.rank = first_rank() + i;
    connect.ids = static_cast<int32_t>(digest_.ids.size());
    connect.id_bytes = static_cast<uint32_t>(digest_.ids.front().size());
    connect.max_bytes = max_bytes;
    connect.cta_policy = options_.cta_policy;
    connect.groups = static_cast<int32_t>(std::max<size_t>(groups_.members.size(), 1));
    std::string payload = std::string(bytes_of(connect)) + ids;
    if (!groups_.empty())
      for (const int32_t group : groups_.of) payload += bytes_of(group);
    payloads.emplace_back(std::move(payload));
  }
  // NCCL's bootstrap costs about 1 s for 1,000 ranks; a slow container or address look-up much more.
  auto answers =
      crew_.ask(protocol::Kind::connect, payloads, protocol::Kind::connected, options_.timeout + ranks() * 0.05);
  if (answers.fault) return answers.fault;
  for (const auto& answer : answers.of)
    if (const auto connected = answer->as<protocol::Connected>()) {
      times_.library = std::max(times_.library, connected->seconds);
      memory_.library = std::max(memory_.library, connected->device_bytes);
      memory_.buffers = std::max(memory_.buffers, connected->buffer_bytes);
    }
  times_.connect = seconds_since(began);
  return std::nullopt;
}

}  // namespace nccltune::bench
