// SPDX-License-Identifier: Apache-2.0
// The end of a session: who is in which state when something broke, the verdict, the reports, the exit status.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "bench/data_path.h"
#include "bench/expected.h"
#include "bench/notes.h"
#include "bench/report_csv.h"
#include "bench/report_json.h"
#include "bench/report_text.h"
#include "bench/session.h"
#include "bench/text.h"

extern char** environ;

namespace nccltune::bench {
namespace {

enum Exit { ok = 0, below = 1, usage = 2, cannot_run = 3, wrong_data = 4, rank_died = 5 };

constexpr const char* kStateKey = "state";
constexpr const char* kDoneKey = "done";
constexpr double kGatherSeconds = 12;  // for all states together
constexpr size_t kMostNamed = 16, kLogLines = 5;

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
  // Three significant digits, as nccl-tests prints them.
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return print(value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%4.0f %s", value, kUnits[unit]);
}

// How likely a fault is the cause, and not the effect of another rank's: 0 first.
int cause_order(const Fault& fault, const std::string& process) {
  if (fault.kind == Fault::Kind::died) return 0;
  if (fault.kind == Fault::Kind::failed)
    return fault.failure == protocol::FailureKind::transport || fault.failure == protocol::FailureKind::timeout ? 3 : 1;
  return process.find("(stopped)") != std::string::npos ? 0 : 2;
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

// Lines "R rank phase text", where phase groups ranks, "C order text" for a cause, "L text" for a log; tabs between.
std::string Session::describe_own_state(const Fault& fault, bool own) {
  std::string state;
  for (int i = 0; i < crew_.size(); ++i) {
    const int rank = world_.place().rank * options_.workers() + i;
    const bool mine = own && fault.rank == rank;
    const std::string process = crew_.state_of(i);
    const size_t odd = process.rfind('(');
    const bool fell = mine && fault.kind != Fault::Kind::hung;
    const std::string phase =
        fell ? "failed" : crew_.phase_of(i) + (odd == std::string::npos ? "" : " " + process.substr(odd));
    const std::string text = world_.place().hostname + ": " + (fell ? "failed in phase " + crew_.phase_of(i) : process);
    state += print("R\t%d\t%s\t%s\n", rank, phase.c_str(), text.c_str());
    if (!mine) continue;
    const std::string gpu = i < static_cast<int>(ready_.size()) ? text_of(ready_[i].bdf) : "";
    state += print("C\t%d\t%s%s%s\n", cause_order(fault, process), split(fault.text, '\n').front().c_str(),
                   gpu.empty() ? "" : ", GPU ", gpu.c_str());
    auto last = crew_.last_lines(i);
    if (i < static_cast<int>(log_files_.size()))
      for (std::string& line : last_lines_of(log_files_[i], kLogLines)) last.push_back(std::move(line));
    for (size_t l = last.size() > kLogLines ? last.size() - kLogLines : 0; l < last.size(); ++l)
      state += print("L\trank %d said: %s\n", rank, last[l].c_str());
  }
  return state;
}

// Rank 0: the likeliest cause first, then where every rank is: the few that differ by name, the many as a range.
std::vector<std::string> Session::gather_states(const std::string& own) {
  const Deadline deadline = in_seconds(kGatherSeconds);
  std::map<std::string, std::vector<int>> ranks_in;  // by phase
  std::map<int, std::string> text_of_rank;
  std::vector<std::string> logs;
  std::pair<int, std::string> cause{9, ""};
  for (int task = 0; task < world_.place().size; ++task) {
    std::optional<std::string> state = own;
    if (task != world_.place().rank) {
      auto got = world_.get(task, kStateKey, std::min(deadline, in_seconds(3)));
      state = got ? *got : std::nullopt;
    }
    if (!state)
      for (int i = 0; i < options_.workers(); ++i) {
        const int rank = task * options_.workers() + i;
        ranks_in["no answer"].push_back(rank);
        text_of_rank[rank] = "no answer: its supervisor is gone or cut off";
        cause = std::min(cause, {1, print("rank %d: %s", rank, text_of_rank[rank].c_str())});
      }
    for (const std::string& line : split(state.value_or(""), '\n')) {
      const auto parts = split(line, '\t');
      if (parts[0] == "R" && parts.size() == 4) {
        const int rank = std::atoi(parts[1].c_str());
        ranks_in[parts[2]].push_back(rank);
        text_of_rank[rank] = parts[3];
      } else if (parts[0] == "C" && parts.size() == 3) {
        const int order = std::atoi(parts[1].c_str());
        if (order < cause.first) cause = {order, parts[2]};
      } else if (parts[0] == "L" && logs.size() < kMostNamed) {
        logs.push_back(line.substr(2));
      }
    }
  }
  std::string common;  // the phase of the most
  for (const auto& [phase, list] : ranks_in)
    if (common.empty() || list.size() > ranks_in[common].size()) common = phase;
  std::vector<std::string> lines, many;
  // A fault of its own is a cause. Waiting in vain is not: then the few that wait elsewhere than the rest come first.
  const bool certain = cause.first < 2;
  if (certain) lines.push_back(cause.second);
  for (const auto& [phase, list] : ranks_in) {
    const bool few = phase != common || ranks_in.size() == 1 ? list.size() <= kMostNamed : list.size() < 3;
    if (few)
      for (const int rank : list) lines.push_back(print("rank %d: %s", rank, text_of_rank[rank].c_str()));
    else
      many.push_back(print("%zu others, ranks %s: %s", list.size(), rank_list(list).c_str(), phase.c_str()));
  }
  lines.insert(lines.end(), many.begin(), many.end());
  if (!certain && !cause.second.empty()) lines.insert(many.empty() ? lines.begin() : lines.end(), cause.second);
  lines.insert(lines.end(), logs.begin(), logs.end());
  return lines;
}

void Session::tell_trouble(const Fault& fault, Ending& ending) {
  std::vector<std::string> lines = split(fault.text, '\n');
  if (!fault.remedy.empty()) lines.back() += "; " + fault.remedy;
  const bool known_to_all = fault.kind == Fault::Kind::failed && fault.rank < 0;
  const bool own = fault.rank >= 0 || fault.kind == Fault::Kind::hung;
  if (own) alarm_.raise(lines.front());
  const std::string state = describe_own_state(fault, own);  // before the workers are killed
  crew_.kill_all();
  ending.trouble.lines = lines;
  if (known_to_all || fault.kind == Fault::Kind::signal) {
    if (reports())
      for (const std::string& line : lines) say(line);
    return;
  }
  if (reports()) {
    std::vector<std::string> states = gather_states(state);
    if (!states.empty()) ending.trouble.lines = std::move(states);
    if (!fault.remedy.empty() && ending.trouble.lines.front().starts_with(fault.text))
      ending.trouble.lines.front() += "; " + fault.remedy;
    for (const std::string& line : ending.trouble.lines) say(line);
    if (!world_.put(kDoneKey, "1")) world_.commit();
    return;
  }
  if (!world_.put(kStateKey, state)) world_.commit();
  // A launcher ends the others once one task fails: rank 0 needs the time to write.
  const auto told = world_.get(0, kDoneKey, in_seconds(kGatherSeconds + 5));
  if (own && (!told || !*told))
    for (const std::string& line : lines) say(line);
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

int Session::conclude(std::optional<Fault> fault) {
  Ending ending;
  judge_rows(ending);
  const bool endless = options_.cycles == 0 || options_.duration;
  if (fault && fault->kind == Fault::Kind::signal && endless && !rows_.empty()) fault.reset();
  ending.complete = !fault;
  if (fault)
    tell_trouble(*fault, ending);
  else
    crew_.dismiss(10);

  int status = fault ? exit_of(*fault) : ending.wrong_checks ? wrong_data : ok;
  if (reports() && !reporters_.empty()) {
    const auto add = [&ending](std::vector<std::string> lines) {
      for (std::string& line : lines) ending.notes.push_back(std::move(line));
    };
    add(describe_wrong(info_, rows_));
    add(describe_setting(info_, worker_.note));
    add(describe_rates(info_, rows_));
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
    add(describe_times(info_, rows_));
    if (worker_.kind == "nccl" && !log_files_.empty())
      add(describe_data_path(read_data_path(log_files_.front()), environment_));
    add({print(
        "start: workers and devices %.2f s, exchange %.3f s, communicator %.2f s (library %.2f s); whole run %.1f s",
        start_seconds_, exchange_seconds_, connect_seconds_, library_seconds_, seconds_since(began_))});
    if (options_.memory_report) {
      const uint64_t user = (options_.check ? 3 : 2) * max_bytes_;
      ending.memory = "Initialization " + memory_amount(library_bytes_) + " | User-Allocated " + memory_amount(user) +
                      " | Total " + memory_amount(library_bytes_ + user);
    }
    ending.seconds = seconds_since(began_);
    ending.exit_status = status;
    for (const auto& reporter : reporters_) reporter->finish(ending);
  }
  for (const std::string& file : log_files_) unlink(file.c_str());
  return status;
}

int run_bench(const Options& asked) {
  Options options = asked;
  Variables environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  if (const auto at = environment.find("NCCL_TESTS_MIN_BW"); at != environment.end()) {
    options.check_mean = parse_real(at->second);
    if (!options.check_mean) return say("NCCL_TESTS_MIN_BW: '" + at->second + "' is not a number of GB/s"), usage;
  }
  for (const char* name : {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK"})
    if (environment.count(name))
      return say(std::string(name) + ": split communicators are not measured; unset it"), usage;

  const auto folder = environment.find("NCCLTUNE_WORKER_DIR");
  auto worker = choose_worker(options.worker, folder == environment.end() ? "" : folder->second);
  if (!worker) return say(worker.error().text()), cannot_run;

  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before PMIx starts its thread, which inherits it
  const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);

  auto world = open_world(environment, in_seconds(options.timeout));
  if (!world) return say(world.error().text()), cannot_run;
  if ((*world)->place().rank == 0 && !worker->note.empty()) say(worker->note);
  // Both outlive the session on purpose: a thread of theirs may still sit in a PMIx call when the process ends.
  World& here = *world->release();
  Alarm& alarm = *new Alarm(here);
  int status = 0;
  {
    Session session(std::move(options), std::move(environment), here, alarm, std::move(*worker), signal_fd);
    status = session.run();
  }
  std::fflush(nullptr);
  here.leave(in_seconds(5));
  return status;
}

}  // namespace nccltune::bench
