// SPDX-License-Identifier: Apache-2.0
// The end of a session: who is in which state when something broke, the verdict, the reports, the exit status.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/data_path.h"
#include "bench/expected.h"
#include "bench/gather.h"
#include "bench/notes.h"
#include "bench/report_csv.h"
#include "bench/report_json.h"
#include "bench/report_text.h"
#include "bench/session.h"
#include "bench/start_cost.h"
#include "bench/step.h"
#include "bench/text.h"
#include "bench/trouble.h"

namespace nccltune::bench {
namespace {

enum Exit { ok = 0, below = 1, usage = 2, cannot_run = 3, wrong_data = 4, rank_died = 5 };

constexpr const char* kEndKey = "end";
constexpr double kDeputyPause = 0.5;  // seconds for a node's daemon to pass a task's last lines on

void say(const std::string& text) { std::fprintf(stderr, "nccl-tune: %s\n", text.c_str()); }

int exit_of(const Fault& fault) {
  if (fault.kind != Fault::Kind::failed) return rank_died;
  switch (fault.failure) {
    case protocol::FailureKind::usage:
      return usage;
    case protocol::FailureKind::no_device:
    case protocol::FailureKind::unsupported:
      return cannot_run;
    default:
      return rank_died;
  }
}

std::string memory_amount(uint64_t bytes) {
  // Three significant digits, in the way of nccl-tests.
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return print(value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
}

}  // namespace

void Session::open_reports() {
  std::vector<Sink> sinks;
  sinks.emplace_back(STDOUT_FILENO, "stdout", true);
  const auto add_file = [&sinks](Result<Sink> sink) {
    if (!sink) return say(sink.error().text());
    if (!sink->is_file_of(STDOUT_FILENO)) sinks.push_back(std::move(*sink));
  };
  if (!options_.out.empty() && options_.out != "none") {
    add_file(open_named(options_.out));
  } else if (options_.out.empty() && !info_.job.empty()) {
    auto file = open_job_file(info_.job, info_.step.empty() ? "batch" : info_.step, STDOUT_FILENO);
    if (!file) say(file.error().text());
    if (file && !file->note.empty()) say(file->note);
    if (file && file->sink) sinks.push_back(std::move(*file->sink));
  }
  world_.slate().write(Slate::table, sinks.size() > 1 ? sinks.back().name() : "");
  world_.slate().write(Slate::document, options_.json);
  reporters_.push_back(std::make_unique<TextReporter>(std::move(sinks)));
  if (!options_.json.empty()) {
    auto sink = open_named(options_.json);
    if (sink)
      reporters_.push_back(std::make_unique<JsonReporter>(std::move(*sink)));
    else
      say(sink.error().text());
  }
  if (!options_.csv.empty()) {
    auto sink = open_named(options_.csv);
    if (sink)
      reporters_.push_back(std::make_unique<CsvReporter>(std::move(*sink)));
    else
      say(sink.error().text());
  }
}

void Session::tell_trouble(const Fault& fault, Ending& ending) {
  std::vector<std::string> lines = split(fault.text, '\n');
  if (!fault.remedy.empty()) lines.back() += "; " + fault.remedy;
  const bool known_to_all = fault.kind == Fault::Kind::failed && fault.rank < 0;
  const bool own = fault.rank >= 0 || fault.kind == Fault::Kind::hung;
  if (own) launch_.alarm().raise(lines.front());
  const std::string state = describe_own_state(launch_, fault, own);  // before the workers are killed
  launch_.crew().kill_all();
  ending.trouble.lines = lines;
  if (known_to_all || fault.kind == Fault::Kind::signal) {
    if (reports())
      for (const std::string& line : lines) say(line);
    return;
  }
  if (reports()) {
    const auto states = gather_states(world_, state);
    lost_ = std::find(states.begin(), states.end(), std::nullopt) != states.end();
    if (auto summary = summarise_states(states, options_.workers(), hosts_of(world_)); !summary.empty())
      ending.trouble.lines = std::move(summary);
    if (!fault.remedy.empty() && ending.trouble.lines.front().starts_with(fault.text))
      ending.trouble.lines.front() += "; " + fault.remedy;
    for (const std::string& line : ending.trouble.lines) say(line);
    return;
  }
  if (!world_.put(kStateKey, state)) world_.commit();
  // Without its keeper this process is nobody's: what the launcher ends does not include it.
  if (fault.kind == Fault::Kind::orphaned || wait_for_release(world_, kDoneKey)) return;
  lost_ = true;
  lines = speak_for_rank_0(world_, state, options_.workers());
  for (const std::string& line : lines) say(line);
  // The step ends with the first that aborts it: the deputy, once it has spoken, and its words are on their way. The
  // others are ended with it, or go when it should have been long done.
  std::this_thread::sleep_for(std::chrono::duration<double>(lines.empty() ? kReportSeconds : kDeputyPause));
}

void Session::judge_rows(Ending& ending) const {
  double sum = 0;
  int halves = 0;
  for (const Row& row : rows_)
    for (const Half* half : {&row.out, &row.in}) {
      if (half->ran) sum += half->busbw, ++halves;
      if (half->checked) ending.wrong_checks += half->bad_ranks;
    }
  ending.mean_busbw = halves ? sum / halves : 0;
  if (options_.check_mean) ending.mean_ok = ending.mean_busbw >= 0.9 * *options_.check_mean;
}

// A line of memory, then one of each of our workers' data path.
Session::Gathered Session::gather_ends() {
  Gathered ends;
  if (worker_.kind != "nccl" || !(options_.data_path || options_.memory_report)) return ends;
  std::string own = print("%llu\t%llu\t%llu", static_cast<unsigned long long>(launch_.memory().library),
                          static_cast<unsigned long long>(launch_.memory().buffers),
                          static_cast<unsigned long long>(operation_bytes_));
  const NodeView view = view_node_ ? view_node_() : NodeView{};
  ends.hca_gbs = view.hca_gbs;
  for (size_t i = 0; i < launch_.log_files().size(); ++i)
    own += "\n" + pack(judge(launch_.first_rank() + static_cast<int>(i), read_data_path(launch_.log_files()[i]), view,
                             text_of(launch_.ready()[i].bdf), launch_.environment()));
  launch_.alarm().watch(true);
  const auto texts =
      gather_at_rank_0(world_, kEndKey, own, kGatherSeconds, [this] { return launch_.alarm().heard().has_value(); });
  launch_.alarm().watch(false);
  for (const auto& text : texts) {
    if (!text) continue;
    const auto lines = split(*text, '\n');
    uint64_t* const most[] = {&ends.library, &ends.buffers, &ends.operations};
    const auto amounts = split(lines.front(), '\t');
    for (size_t i = 0; i < 3 && i < amounts.size(); ++i)
      *most[i] = std::max<uint64_t>(*most[i], parse_integer(amounts[i], 0, INT64_MAX).value_or(0));
    for (size_t i = 1; i < lines.size(); ++i)
      if (auto path = unpack_path(lines[i])) ends.paths.push_back(std::move(*path));
  }
  return ends;
}

int Session::conclude(std::optional<Fault> fault) {
  Ending ending;
  judge_rows(ending);
  const bool endless = options_.cycles == 0 || options_.duration;
  if (fault && fault->kind == Fault::Kind::signal && endless && !rows_.empty()) fault.reset();
  Gathered ends;
  if (!fault) {
    launch_.crew().dismiss(10);
    ends = gather_ends();
    // Another task may break where this one has measured all.
    if (const auto heard = launch_.alarm().heard()) fault = Fault{Fault::Kind::alarm, -1, *heard, ""};
  }
  ending.complete = !fault;
  if (fault) tell_trouble(*fault, ending);

  int status = fault ? exit_of(*fault) : ending.wrong_checks ? wrong_data : ok;
  if (reports() && !reporters_.empty()) {
    const auto add = [&ending](std::vector<std::string> lines) {
      for (std::string& line : lines) ending.notes.push_back(std::move(line));
    };
    add(describe_wrong(info_, rows_));
    add(describe_repeats(info_, rows_));
    add(describe_setting(info_, worker_.note));
    add(describe_rates(info_, rows_));
    add(describe_small(info_, rows_));
    add(describe_limit(info_, rows_, ends.hca_gbs));
    add(describe_cycles(rows_));
    const Verdict verdict = compare_with_expected(options_, info_, rows_);
    add(verdict.lines);
    if (!verdict.met && status == ok) status = below;
    if (options_.min_busbw && best_busbw(rows_) < *options_.min_busbw) {
      ending.notes.push_back(
          print("the best busbw, %.2f GB/s, is below the %.2f GB/s that were asked for (--min-busbw)",
                best_busbw(rows_), *options_.min_busbw));
      if (status == ok) status = below;
    }
    if (ending.mean_ok == false && status == ok) status = below;
    const auto differs = [](const Row& row) { return row.out.repeats.differing + row.in.repeats.differing > 0; };
    if (std::any_of(rows_.begin(), rows_.end(), differs) && status == ok) status = below;
    add(describe_times(info_, rows_));
    add(describe_unmet(info_, rows_));
    add(describe_groups(info_, rows_));
    add(describe_paths(ends.paths, ranks(), [this](int rank) { return name_rank(info_, rank); }));
    if (worker_.kind == "nccl" && !launch_.log_files().empty())
      add(describe_data_path(read_data_path(launch_.log_files().front())));
    const Launch::Times& times = launch_.times();
    add({print(
        "start: workers and devices %.2f s, exchange %.3f s, communicator %.2f s (library %.2f s); whole run %.1f s",
        times.start, times.exchange, times.connect, times.library, seconds_since(began_))});
    if (options_.memory_report) {
      ending.memory = "Initialization " + memory_amount(ends.library) + " | User-Allocated " +
                      memory_amount(ends.buffers) + " | Collective " + memory_amount(ends.operations) + " | Total  " +
                      memory_amount(ends.library + ends.buffers + ends.operations);
    }
    ending.seconds = seconds_since(began_);
    ending.exit_status = status;
    for (const auto& reporter : reporters_) reporter->finish(ending);
  }
  std::fflush(nullptr);
  if (fault && reports()) release_others(world_);
  // A launcher waits for a node that is cut off, unless the step is ended.
  if (lost_) world_.abort(status, "");
  return status;
}

int run_bench(const Options& asked, ViewNode view_node) {
  Options options = asked;
  const Variables environment = own_environment();
  if (const auto at = environment.find("NCCL_TESTS_MIN_BW"); at != environment.end()) {
    options.check_mean = parse_real(at->second);
    if (!options.check_mean) return say("NCCL_TESTS_MIN_BW: '" + at->second + "' is not a number of GB/s"), usage;
  }
  if (!options.split) {
    auto split = split_of_environment(environment);
    if (!split) return say(split.error().text()), usage;
    options.split = std::move(*split);
  }

  if (options.worker == WorkerChoice::none) return measure_start(options, environment);
  auto step = open_step(environment, options.worker, options.timeout);
  if (!step) return say(step.error().text()), cannot_run;
  int status = 0;
  {
    Session session(std::move(options), environment, step->world, std::move(step->worker), step->signal_fd,
                    std::move(view_node));
    status = session.run();
  }
  std::fflush(nullptr);
  step->world.leave(in_seconds(5));
  return status;
}

}  // namespace nccltune::bench
