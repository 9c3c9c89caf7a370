// SPDX-License-Identifier: Apache-2.0
#include "bench/tune.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "bench/collectives.h"
#include "bench/schedule.h"
#include "bench/step.h"
#include "bench/text.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/tune_files.h"
#include "cli/tune_options.h"
#include "cli/tune_profile.h"
#include "cli/tune_report.h"
#include "policy/kept.h"
#include "policy/profile.h"

namespace nccltune::cli {
namespace {

// A word of a command line as a shell takes it.
std::string shell_word(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%^") ==
          std::string::npos)
    return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string command_of(const TuneOptions& options) {
  std::string text = "nccl-tune";
  for (const std::string& word : options.base.arguments) text += " " + shell_word(word);
  return text;
}

// All that rank 0 knows before the first trial.
struct Ground {
  TuneOptions options;
  bench::Space declared;
  std::string space_file, space_text, workload_text;
  Workload workload;
  Facts facts;
  Plan plan;
};

Result<Workload> workload_of(const TuneOptions& options, std::string& text) {
  if (!options.workload.empty()) {
    auto read = read_text(options.workload);
    if (!read) return read.error();
    text = *read;
    return parse_workload(text, options.workload);
  }
  const bench::CollectiveInfo& info = bench::info_of(options.base.collective);
  bench::Work work{options.base.collective, options.base.types.front(),
                   info.has_op ? protocol::Op::sum : protocol::Op::none, 0,
                   bench::sizes_of(options.base, options.base.max_bytes)};
  Workload workload;
  workload.objective.weights.assign(work.sizes.size(), 1);
  workload.works.push_back(std::move(work));
  return workload;
}

Result<Ground> prepare(const TuneOptions& options) {
  Ground ground{.options = options};
  ground.space_file = options.space.empty() ? default_space() : options.space;
  if (ground.space_file.empty())
    return Error{NCCLTUNE_SYSCONFDIR "/nccl-tune/tune-space.yaml", "not there", "", "name a space with --space"};
  auto text = read_text(ground.space_file);
  if (!text) return text.error();
  ground.space_text = *text;
  auto space = parse_space(*text, ground.space_file);
  if (!space) return space.error();
  ground.declared = std::move(*space);
  auto workload = workload_of(options, ground.workload_text);
  if (!workload) return workload.error();
  ground.workload = std::move(*workload);
  if (access(options.out.c_str(), F_OK) == 0) {
    const bool resumes = !options.state.empty() && access(options.state.c_str(), F_OK) == 0;
    if (!resumes) return Error{options.out, "is there already", "", "move it away, or name another with --out"};
  }
  auto facts = gather(options.facts);
  if (!facts) return facts.error();
  ground.facts = std::move(*facts);
  ground.plan = make_plan(ground.facts.node, ground.facts.policy, ground.facts.step);
  return ground;
}

bench::StepFacts facts_of(const Ground& ground, const bench::Place& place, const std::string& worker, int nccl) {
  bench::StepFacts facts;
  facts.nodes = place.nodes;
  facts.ranks = place.size * ground.options.base.workers();
  facts.ranks_per_node = place.local_size * ground.options.base.workers();
  for (const HcaDecision& hca : ground.plan.hcas) facts.hcas += hca.used();
  facts.link_layer = link_layer_of(ground.facts.node, ground.plan);
  facts.gpus = gpu_ids(ground.facts.node);
  facts.nccl = nccl;
  facts.worker = worker;
  if (const Profile* profile = find_profile(ground.facts.policy, ground.plan.profile)) {
    std::vector<Note> ignored;
    facts.net_plugin = with_extended(ground.facts.policy, *profile, ignored).net_plugin;
  }
  facts.registration = ground.options.base.registration > 0;
  facts.smallest = UINT64_MAX;
  for (const bench::Work& work : ground.workload.works) {
    facts.smallest = std::min(facts.smallest, work.sizes.front());
    facts.largest = std::max(facts.largest, work.sizes.back());
    facts.collectives.emplace_back(bench::info_of(work.collective).name);
  }
  facts.environment = bench::own_environment();
  const Environment users = ground.facts.step.env;  // without what a plan exported
  for (const bench::Knob& knob : ground.declared.knobs) {
    if (!knob.when.file.empty() && access(knob.when.file.c_str(), F_OK) == 0) facts.files.insert(knob.when.file);
    const auto existing = existing_value(ground.facts.node, users, knob.name);
    // The variables of the search's own tests are the step's, to be varied.
    if (!existing || knob.when.worker == "host") continue;
    facts.users.insert(knob.name);
    facts.environment[knob.name] = existing->value;
  }
  return facts;
}

// "NCCL 2.28.3" gives 22803; 0 when it tells no version.
int version_code(const std::string& library) {
  const size_t blank = library.find(' ');
  const size_t end = library.find_first_not_of("0123456789.", blank == std::string::npos ? 0 : blank + 1);
  return blank == std::string::npos ? 0 : bench::nccl_code(library.substr(blank + 1, end - blank - 1)).value_or(0);
}

std::string today_of(const Ground& ground) {
  const Environment env = bench::own_environment();
  if (env.count("NCCLTUNE_SET") > 0) return "the plan, profile " + ground.plan.profile;
  return "the step's own environment, without the plan";
}

TuneStory story_of(const Ground& ground, const bench::Place& place, const bench::TrialResult& probe) {
  TuneStory story;
  story.command = command_of(ground.options);
  story.date = bench::local_time_text(std::time(nullptr), "%Y-%m-%d");
  story.version = NCCLTUNE_VERSION;
  const int ranks = place.size * ground.options.base.workers();
  story.machine = fmt::format("{} rank{} on {} node{}, {}, {}", ranks, ranks == 1 ? "" : "s", place.nodes,
                              place.nodes == 1 ? "" : "s", probe.device, probe.library);
  story.today = today_of(ground);
  story.space_file = ground.space_file;
  story.budget = ground.options.search.budget;
  story.works = ground.workload.works;
  story.min_gain = ground.options.search.min_gain;
  return story;
}

// What decides about the order of trials and about what they mean. Not the node names: the next job of the same kind
// may get others.
bench::Identity identity_of(const Ground& ground, const TuneStory& story, const bench::Space& space) {
  const bench::SearchOptions& search = ground.options.search;
  std::string variables;
  for (const bench::Knob& knob : space.knobs)
    variables += (variables.empty() ? "" : " ") + knob.name + "=" + join(knob.values, ",");
  std::string nccl;
  for (const auto& [name, value] : bench::own_environment())
    if (name.rfind("NCCL_", 0) == 0) nccl += (nccl.empty() ? "" : " ") + name + "=" + value;
  return {{"version", story.version},
          {"machine", story.machine},
          {"work", works_text(story.works) + (ground.workload_text.empty() ? "" : "; " + ground.workload_text)},
          {"space", variables},
          {"environment", nccl},
          {"options",
           fmt::format("-n {} -w {} -R {} --budget {} --launches {} --min-gain {} --seed {}",
                       ground.options.base.iterations, ground.options.base.warmup, ground.options.base.registration,
                       search.budget, search.launches, search.min_gain, search.seed)}};
}

// False after saying why.
bool write_new(const std::string& file, const std::string& text) {
  const auto fault = write_new_file(file, text);
  if (fault) say(*fault);
  return !fault;
}

Profile profile_of(const Ground& ground, const TuneStory& story, const bench::Space& space, const bench::Search& search,
                   const bench::Gain& gain) {
  Profile profile;
  const Profile* base = find_profile(ground.facts.policy, ground.plan.profile);
  profile.name =
      tuned_name(ground.plan.profile, bench::local_time_text(std::time(nullptr), "%Y%m%d"), ground.facts.policy);
  profile.when = condition_of(ground.facts.node, ground.plan);
  if (base != nullptr) profile.extends = base->name;
  profile.why = why_text(story, search, gain);
  for (const auto& [name, value] : changes_of(space, search.decision()->setting))
    profile.env.push_back({name, *value, "", ""});
  return profile;
}

// The profile, read back before anybody installs it.
bool write_profile(const Ground& ground, const TuneStory& story, const bench::Space& space, const bench::Search& search,
                   const bench::Gain& gain) {
  const Profile profile = profile_of(ground, story, space, search, gain);
  std::vector<std::string> comments{
      "Found by nccl-tune tune. To use it: install -o root -g root -m 644 THIS-FILE " NCCLTUNE_SYSCONFDIR
      "/nccl-tune.d/",
      "It holds for every job on nodes that match `when`, whatever the number of its nodes; measured were " +
          story.machine + "."};
  for (const std::string& line : size_lines(story, *search.decision())) comments.push_back(line);
  for (const std::string& line : risk_lines(space, search.decision()->setting)) comments.push_back("Mind: " + line);
  const std::string text = profile_text(profile, comments);
  if (auto back = parse_policy(text, ground.options.out); !back) {
    say(back.error());
    return false;
  }
  return write_new(ground.options.out, text);
}

int exit_of(const bench::TrialFault& fault) {
  if (fault.kind == bench::TrialFault::Kind::signal) return exit_failed;
  if (fault.kind == bench::TrialFault::Kind::refused) return exit_usage;
  return fault.kind == bench::TrialFault::Kind::wrong_data ? exit_wrong_data : exit_rank_died;
}

void say_line(const std::string& object, const std::string& what, const std::string& remedy = "") {
  say({.object = object, .what = what, .remedy = remedy});
}

// The result of a search that is over, on stdout and in the files.
int conclude(const Ground& ground, const TuneStory& story, const bench::Space& space, const bench::Search& search,
             const bench::Journal& journal) {
  std::optional<bench::Gain> gain;
  if (search.decision() && search.decision()->fault.empty() && search.end_reason().empty())
    gain = bench::judge_gain(search, story.min_gain);
  std::string report = report_text(story, space, search, gain, ground.options.verbose);
  bool wrote = true;
  if (gain && gain->better) {
    wrote = write_profile(ground, story, space, search, *gain);
    if (wrote)
      report += fmt::format(
          "\nwrote {}; see it with: nccl-tune plan --policy {}\nuse it with: install -o root -g root -m 644 {} "
          "{}/nccl-tune.d/\n",
          ground.options.out, ground.options.out, ground.options.out, NCCLTUNE_SYSCONFDIR);
  }
  if (!ground.options.json.empty()) {
    unlink(ground.options.json.c_str());
    wrote = write_new(ground.options.json, report_json(story, space, search, gain, journal)) && wrote;
  }
  // The search is not lost with a result that found no room: the same command writes it without a trial.
  if (wrote && !ground.options.state.empty()) unlink(ground.options.state.c_str());
  const int told = finish(report);
  for (const auto& failed : search.failed())
    if (bench::count_set(failed.setting) == 0 && search.end_reason() == "today's settings fail")
      return failed.wrong_data ? exit_wrong_data : exit_rank_died;
  return wrote ? told : exit_cannot_run;
}

int search_and_tell(bench::TrialRunner& runner, const Ground& ground, const bench::Step& step) {
  const bench::Place& place = step.world.place();
  const bench::TrialResult first =
      bench::probe(runner, ground.workload.works, std::max(60.0, ground.options.search.budget));
  if (first.fault) {
    say_line("today's settings", first.fault->text);
    return exit_of(*first.fault);
  }
  TuneStory story = story_of(ground, place, first);
  const bench::Space space = applicable(
      ground.declared, facts_of(ground, place, step.worker.kind, version_code(first.library)), story.left_out);
  if (space.knobs.empty()) {
    for (const auto& [name, why] : story.left_out) say_line(name, why);
    say_line(ground.space_file, "none of its variables is for this step");
    return exit_usage;
  }
  bench::Search search(space, ground.workload.objective, ground.options.search);
  const bench::Identity identity = identity_of(ground, story, space);
  bench::Journal journal;
  if (!ground.options.state.empty()) {
    auto found = bench::read_journal(ground.options.state, identity);
    if (!found) return say(found.error()), exit_usage;
    if (*found) journal = std::move(**found);
    if (auto error = bench::replay(journal, ground.options.state, search)) return say(*error), exit_usage;
    if (!journal.trials.empty())
      say_line("tune", fmt::format("goes on after {} trials from {}", journal.trials.size(), ground.options.state));
  }
  const bench::TuneEnd end =
      lead(runner, space, ground.workload.works, search, journal,
           {ground.options.state, identity, ground.options.search.budget, ground.options.base.progress});
  if (end.interrupted) {
    say_line("tune", "ended after " + std::to_string(search.trials()) + " trials: " + end.why,
             ground.options.state.empty() ? "" : "the same command goes on from " + ground.options.state);
    return end.lost ? exit_rank_died : exit_failed;
  }
  return conclude(ground, story, space, search, journal);
}

}  // namespace

int tune(int argc, char** argv) {
  const auto [options, status] = parse_tune_options(argc, argv);
  if (!options) return status;
  const bench::Variables environment = bench::own_environment();
  auto step = bench::open_step(environment, options->base.worker, options->base.timeout);
  if (!step) return say(step.error()), exit_cannot_run;
  int result = 0;
  {
    bench::TrialRunner runner(options->base, environment, step->world, step->worker, step->signal_fd);
    if (runner.reports()) {
      auto ground = prepare(*options);
      if (!ground) say(ground.error());
      result = ground ? search_and_tell(runner, *ground, *step) : static_cast<int>(exit_usage);
      bench::dismiss(runner, result);
    } else {
      result = bench::follow(runner);
    }
  }
  std::fflush(nullptr);
  // Rank 0's last word is gone with it: it stays until all have heard it, but not for a task that is lost.
  (void)step->world.fence(bench::in_seconds(10));
  step->world.leave(bench::in_seconds(5));
  return result;
}

}  // namespace nccltune::cli
