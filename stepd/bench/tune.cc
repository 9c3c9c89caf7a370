// SPDX-License-Identifier: Apache-2.0
#include "bench/tune.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/collectives.h"
#include "bench/comparison.h"
#include "bench/json.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLineSeconds = 60;  // between progress lines where stderr is no terminal

void say(const std::string& text) { std::fprintf(stderr, "nccl-tune: %s\n", text.c_str()); }

// What the other tasks need to take part in a trial.
std::string word_of(const Variant& variant, const std::vector<Work>& works, double seconds) {
  Json word = {{"name", variant.name}, {"seconds", seconds}, {"set", Json::array()}, {"works", Json::array()}};
  for (const auto& [name, value] : variant.environment)
    word["set"].push_back({name, value ? Json(*value) : Json(nullptr)});
  for (const Work& work : works)
    word["works"].push_back({static_cast<uint32_t>(work.collective), static_cast<uint32_t>(work.type),
                             static_cast<uint32_t>(work.op), work.root, work.sizes});
  return dump(word);
}

TrialResult take_part(TrialRunner& runner, const Json& word) {
  Variant variant{word.at("name").get<std::string>(), {}};
  for (const Json& pair : word.at("set"))
    variant.environment.emplace_back(pair.at(0).get<std::string>(), pair.at(1).is_null()
                                                                        ? std::nullopt
                                                                        : std::optional(pair.at(1).get<std::string>()));
  std::vector<Work> works;
  for (const Json& item : word.at("works"))
    works.push_back({static_cast<protocol::Collective>(item.at(0).get<uint32_t>()),
                     static_cast<protocol::DataType>(item.at(1).get<uint32_t>()),
                     static_cast<protocol::Op>(item.at(2).get<uint32_t>()), item.at(3).get<int>(),
                     item.at(4).get<std::vector<uint64_t>>()});
  return runner.run(variant, works, word.at("seconds").get<double>());
}

// A line that is written over on a terminal, and now and then a line of its own elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted) : wanted_(wanted), terminal_(isatty(STDERR_FILENO)) {}
  ~ProgressLine() { clear(); }
  void show(const std::string& text, bool new_stage) {
    if (!wanted_) return;
    if (terminal_) {
      std::fprintf(stderr, "\r%s\033[K", text.c_str());
    } else if (new_stage || seconds_since(last_) >= kLineSeconds) {
      say("tune: " + text);
      last_ = Clock::now();
    }
  }
  void clear() const {
    if (wanted_ && terminal_) std::fputs("\r\033[K", stderr);
  }

 private:
  bool wanted_, terminal_;
  Clock::time_point last_ = Clock::now();
};

// One trial may take a few times what today's settings took, not all of the budget: a setting that hangs is a result.
double patience(const Search& search, double longest, double budget) {
  if (longest <= 0) return std::max(30.0, budget / 4);
  return std::min(std::max(20.0, 4 * longest), std::max(20.0, budget - search.spent()));
}

}  // namespace

size_t count_entries(const std::vector<Work>& works) {
  size_t count = 0;
  for (const Work& work : works) count += work.sizes.size();
  return count;
}

std::vector<double> entry_times(const std::vector<Work>& works, const TrialResult& result) {
  std::vector<double> times;
  for (size_t w = 0; w < works.size(); ++w)
    for (size_t s = 0; s < works[w].sizes.size(); ++s) {
      if (w >= result.rows.size() || s >= result.rows[w].size()) return {};
      const double seconds = time_of(result.rows[w][s]);
      if (!(seconds > 0)) return {};
      times.push_back(seconds);
    }
  return times;
}

Answer answer_of(const std::vector<Work>& works, const TrialResult& result) {
  Answer answer;
  answer.seconds = result.seconds;
  if (result.fault) {
    answer.fault = std::string(name(result.fault->kind)) + ": " + result.fault->text;
    answer.wrong_data = result.fault->kind == TrialFault::Kind::wrong_data;
    return answer;
  }
  answer.times = entry_times(works, result);
  if (answer.times.empty()) answer.fault = "a time is missing";
  return answer;
}

std::string minutes(double seconds) {
  const long whole = std::lround(std::max(0.0, seconds));
  return whole < 60        ? print("%ld s", whole)
         : whole % 60 == 0 ? print("%ld min", whole / 60)
                           : print("%ld min %ld s", whole / 60, whole % 60);
}

std::string progress_text(const Space& space, const Search& search, double budget) {
  std::string text = print("%d trials, at most %s left, %s", search.trials(), minutes(budget - search.spent()).c_str(),
                           name(search.stage()));
  const auto best = search.best();
  if (best)
    text += print("; best so far %s, %.3f times today's speed", describe(space, best->setting).c_str(), 1 + best->gain);
  return text;
}

TrialResult probe(TrialRunner& runner, const std::vector<Work>& works, double seconds) {
  Work work = works.front();
  work.sizes.resize(1);
  const std::string word = word_of({"today's settings", {}}, {work}, seconds);
  if (auto agreed = runner.agree(word); !agreed) {
    TrialResult result;
    result.fault = TrialFault{};
    result.fault->kind = TrialFault::Kind::lost;
    result.fault->text = agreed.error().text();
    return result;
  }
  return take_part(runner, Json::parse(word));
}

TuneEnd lead(TrialRunner& runner, const Space& space, const std::vector<Work>& works, Search& search, Journal& journal,
             const TuneRun& run) {
  ProgressLine line(run.progress);
  double longest = 0;
  for (const auto& [setting, answer] : journal.trials)
    if (!answer.times.empty()) longest = std::max(longest, answer.seconds);
  bool can_write = !run.state.empty();
  std::optional<Search::Stage> stage;
  while (const auto setting = search.next()) {
    line.show(progress_text(space, search, run.budget), search.stage() != stage);
    stage = search.stage();
    const Variant variant{describe(space, *setting), changes_of(space, *setting)};
    const std::string word = word_of(variant, works, patience(search, longest, run.budget));
    if (auto agreed = runner.agree(word); !agreed) {
      return {true, true, agreed.error().text()};
    }
    const TrialResult result = take_part(runner, Json::parse(word));
    if (result.over()) {  // no answer of the machine, so not the journal's
      return {true, result.fault->kind == TrialFault::Kind::lost, result.fault->text};
    }
    const Answer answer = answer_of(works, result);
    if (!answer.times.empty()) longest = std::max(longest, answer.seconds);
    if (answer.times.empty()) {
      line.clear();
      say(variant.name + ": " + answer.fault + (answer.wrong_data ? "; WRONG DATA, never use these settings" : ""));
    }
    journal.trials.emplace_back(*setting, answer);
    search.tell(answer);
    if (!can_write) continue;
    if (auto error = write_journal(run.state, run.identity, journal)) {
      line.clear();
      say(error->text() + "; the search goes on without a state file");
      can_write = false;
    }
  }
  return {};
}

void dismiss(TrialRunner& runner, int status) {
  // Nobody is left to hear it where a task was lost; each of them ends by its own deadline then.
  (void)runner.agree(Json{{"end", status}}.dump());
}

int follow(TrialRunner& runner) {
  while (true) {
    const auto word = runner.agree("");
    if (!word) return say(word.error().text()), 5;
    const Json parsed = Json::parse(*word, nullptr, false);
    if (parsed.is_discarded() || !parsed.is_object()) return say("rank 0: its word is of another build"), 5;
    if (parsed.contains("end")) return parsed["end"].get<int>();
    const TrialResult result = take_part(runner, parsed);
    if (result.over()) return result.fault->kind == TrialFault::Kind::signal ? 1 : 5;
  }
}

}  // namespace nccltune::bench
