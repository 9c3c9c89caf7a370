// SPDX-License-Identifier: Apache-2.0
#include "bench/pairs_run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <thread>

#include "bench/hostlist.h"
#include "bench/obituary.h"
#include "bench/step.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

enum Exit { ok = 0, bad = 1, usage = 2, cannot_run = 3, ended_early = 5 };

constexpr double kPartingSeconds = 5;
constexpr double kServerSeconds = 90;  // that a server may hang with a dead node (Slurm's MessageTimeout, some times)
constexpr double kSlack = 15;          // seconds that words may need on their way, beyond what the work may last

void say(const std::string& text) { std::fprintf(stderr, "nccl-tune: %s\n", text.c_str()); }

std::string card_key() { return "pairs.card"; }
std::string node_card_key() { return "pairs.node"; }
std::string plan_key(int round) { return print("pairs.plan.%d", round); }
std::string report_key(int round) { return print("pairs.report.%d", round); }
std::string node_report_key(int round) { return print("pairs.node.%d", round); }
constexpr const char* kByeKey = "pairs.bye";
constexpr const char* kLeftKey = "pairs.left";

RoundPlan end_of(int status, std::string text) {
  RoundPlan plan;
  plan.over = true, plan.status = status, plan.text = std::move(text);
  return plan;
}

const RailReport* report_of(const std::optional<std::vector<RailReport>>& reports, int rail) {
  if (reports)
    for (const RailReport& report : *reports)
      if (report.rail == rail) return &report;
  return nullptr;
}

}  // namespace

PairsTask::PairsTask(PairsOptions options, std::map<std::string, std::string> environment, World& world, Alarm& alarm,
                     const ChosenWorker& worker, int signal_fd, NicsOf nics)
    : options_(std::move(options)),
      environment_(std::move(environment)),
      world_(world),
      exchange_(world, options_.tasks_as_nodes, signal_fd),
      workers_(options_, environment_, world, alarm, worker, exchange_, signal_fd, std::move(nics)),
      worker_kind_(worker.kind) {}

std::string PairsTask::variable(const char* name) const {
  const auto at = environment_.find(name);
  return at == environment_.end() ? "" : at->second;
}

// Slurm's name of the node: what scontrol wants, and the only one that tells several nodes of one host apart.
std::string PairsTask::own_name() const {
  const std::string slurm = variable("SLURMD_NODENAME");
  const std::string& name = slurm.empty() ? world_.place().hostname : slurm;
  return options_.tasks_as_nodes ? print("%s:%d", name.c_str(), world_.place().rank) : name;
}

void PairsTask::show_progress(const std::string& text) {
  if (!reports() || !options_.progress || !isatty(STDERR_FILENO)) return;
  std::fprintf(stderr, "\r%s\033[K", text.c_str());
}

std::vector<int> PairsTask::others_of_node() const {
  std::vector<int> others = exchange_.tasks_of(exchange_.node());
  std::erase_if(others, [&](int task) { return task == world_.place().rank || lost_tasks_.contains(task); });
  return others;
}

std::vector<RailReport> PairsTask::reports_of_lost(int task, const std::string& why) const {
  const std::vector<int>& tasks = exchange_.tasks_of(exchange_.node());
  const auto at = static_cast<int>(std::find(tasks.begin(), tasks.end(), task) - tasks.begin());
  std::vector<RailReport> reports;
  reports.reserve(static_cast<size_t>(options_.gpus));
  for (int i = 0; i < options_.gpus; ++i)
    reports.push_back({at * options_.gpus + i, 0, RailReport::Blame::died, false, why});
  return reports;
}

void PairsTask::owe(int round) {
  std::vector<std::string> keys{plan_key(round + 1)};
  if (round < 0)
    keys.push_back(exchange_.leads() ? node_card_key() : card_key());
  else
    keys.push_back(exchange_.leads() ? node_report_key(round) : report_key(round));
  for (int i = 0; round >= 0 && i < options_.gpus; ++i)
    keys.push_back(over_key(round, exchange_.local_rank() * options_.gpus + i));
  world_.slate().write(Slate::owed, join(keys, "\n"));
}

// The first task of a node: gathers the words of its tasks and passes them on as one.
void PairsTask::lead(int round, const std::string& own, Deadline deadline) {
  std::string text = own;
  for (const auto& [task, why] : lost_tasks_) text += pack(reports_of_lost(task, why));
  const std::vector<int> others = others_of_node();
  const auto words = exchange_.gather(others, report_key(round), deadline);
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i]) continue;
    const auto why = cause_of_loss(*words[i]);
    text += why ? pack(reports_of_lost(others[i], *why)) : *words[i];
    if (why) lost_tasks_.emplace(others[i], *why);
  }
  if (const auto error = exchange_.tell(node_report_key(round), text)) say(error->text());
}

int PairsTask::run() {
  world_.slate().write(Slate::place,
                       print("%d\t%d\t%s", world_.place().rank * options_.gpus, options_.gpus, own_name().c_str()));
  world_.slate().write(Slate::done, kLeftKey);
  world_.slate().write(Slate::farewell, kByeKey);
  owe(-1);
  // A task that has told anything answers "not yet" at once, one that has not is waited for.
  if (const auto error = exchange_.tell("pairs.hello", "1")) return say(error->text()), cannot_run;
  const std::string uneven = exchange_.unevenness();
  if (!uneven.empty() || world_.place().size * options_.gpus < 2) {
    if (reports())
      say(uneven.empty() ? "pairs: one GPU alone has nobody to be paired with; start it with 'srun --mpi=pmix -N2 "
                           "--ntasks-per-node=8 nccl-tune pairs'"
                         : "pairs: every node needs the same number of tasks: " + uneven);
    return usage;
  }

  NodeCard card{own_name(), world_.place().hostname, variable("SLURM_TOPOLOGY_ADDR"), options_.shared_text,
                workers_.open()};
  const Deadline cards_due = in_seconds(options_.timeout + kSlack);
  std::string text;
  if (exchange_.leads()) {
    const std::vector<int> others = others_of_node();
    const auto words = exchange_.gather(others, card_key(), cards_due);
    for (size_t i = 0; i < words.size(); ++i) {
      if (const auto why = words[i] ? cause_of_loss(*words[i]) : std::nullopt) lost_tasks_.emplace(others[i], *why);
      if (const auto other = words[i] ? unpack_card(*words[i]) : std::nullopt)
        card.rails.insert(card.rails.end(), other->rails.begin(), other->rails.end());
    }
    exchange_.tell(node_card_key(), pack(card));
  } else {
    exchange_.tell(card_key(), pack(card));
  }
  if (reports()) text = meet_nodes();

  int status = ended_early;
  for (int round = 0;; ++round) {
    owe(round);
    RoundPlan plan;
    if (reports()) {
      plan = text.empty() ? decide(round) : end_of(usage, text);
      if (!text.empty()) announce(round, plan, std::nullopt);
    } else {
      // Rank 0 hears of this round's end from the slowest node; then each first task passes its word on.
      plan = hear_plan(round, 2 * round_seconds() + options_.timeout + 4 * kSlack + kServerSeconds);
    }
    if (plan.over) {
      status = plan.status;
      if (!plan.text.empty() && reports()) say(plan.text);
      break;
    }
    take_part(plan, round);
    if (reports()) collect(plan, round);
  }
  show_progress("");
  if (reports() && search_) finish(status);
  workers_.dismiss();
  part();
  // One task's status is enough for the launcher, and 8,000 lines of "exited with 1" are no help.
  return reports() || status != bad ? status : static_cast<int>(ok);
}

// What rank 0 told last is only to be had while its server runs: it leaves after the others, but waits for nobody long.
void PairsTask::part() {
  exchange_.tell(kByeKey, "1");
  if (!exchange_.leads()) return;
  if (!reports()) {
    exchange_.hear(0, kLeftKey, in_seconds(kPartingSeconds));
    return;
  }
  std::vector<int> leaders = exchange_.leaders();
  std::erase(leaders, world_.place().rank);
  for (size_t i = 0; i < order_.size(); ++i)
    if (search_ && search_->lost(static_cast<int>(i))) std::erase(leaders, exchange_.tasks_of(order_[i]).front());
  exchange_.gather(leaders, kByeKey, in_seconds(kPartingSeconds));
  exchange_.tell(kLeftKey, "1");
  exchange_.linger();
  // Keepers of lost tasks ask more seldom.
  if (search_ && pairs_status(*search_) == bad)
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * kKeeperPause));
}

RoundPlan PairsTask::hear_plan(int round, double seconds) {
  const int from = exchange_.leads() ? 0 : exchange_.tasks_of(exchange_.node()).front();
  auto text = exchange_.hear(from, plan_key(round), in_seconds(seconds + (exchange_.leads() ? 0 : kSlack)));
  if (!text) {
    if (exchange_.interrupted()) return end_of(ended_early, "");
    say(print("%s: rank %d did not say what comes next", own_name().c_str(), from));
    text = pack(end_of(ended_early, "rank 0 is gone"), std::nullopt);
  }
  if (exchange_.leads()) exchange_.tell(plan_key(round), *text);
  // The task that this one hears from is gone, and its keeper has said why. Without rank 0 the search is over; without
  // the first task of a node it goes on elsewhere, and a status that ends the step would stop it.
  if (cause_of_loss(*text)) return end_of(exchange_.leads() ? static_cast<int>(ended_early) : static_cast<int>(ok), "");
  auto plan = unpack_plan(*text, exchange_.nodes());
  return plan ? std::move(*plan) : end_of(ended_early, "");
}

void PairsTask::take_part(const RoundPlan& plan, int round) {
  const auto pair = plan.pair_of(exchange_.node());
  const Deadline due = in_seconds(round_seconds() + kSlack);
  if (!pair) return;  // nothing to tell, and nobody asks
  std::string text = pack(workers_.run(*pair, round));
  if (exchange_.leads())
    lead(round, text, due);
  else
    exchange_.tell(report_key(round), text);
  workers_.part();
}

// Rank 0: who is there. Not empty: why there will be no round.
std::string PairsTask::meet_nodes() {
  const int nodes = exchange_.nodes();
  std::vector<int> leaders = exchange_.leaders();
  const auto texts = exchange_.gather(leaders, node_card_key(), in_seconds(options_.timeout + 3 * kSlack));
  std::vector<std::string> names = expand_hosts(variable("SLURM_STEP_NODELIST"));
  if (names.size() != static_cast<size_t>(nodes) || options_.tasks_as_nodes) names.clear();
  std::vector<NodeCard> cards(static_cast<size_t>(nodes));
  std::vector<std::string> topologies, other_options;
  for (int node = 0; node < nodes; ++node) {
    const auto at = static_cast<size_t>(node);
    auto card = texts[at] ? unpack_card(*texts[at]) : std::nullopt;
    const auto why = texts[at] ? cause_of_loss(*texts[at]) : std::nullopt;
    if (card) {
      cards[at] = std::move(*card);
      if (cards[at].options != options_.shared_text) other_options.push_back(cards[at].name);
    } else {
      cards[at].name = names.empty() ? print("node%d", node) : names[at];
      early_lost_[node] = why         ? *why
                          : texts[at] ? "its nccl-tune is of another version"
                                      : "no answer from its tasks at the start";
    }
    topologies.push_back(cards[at].topology);
  }
  if (!other_options.empty())
    return print("pairs: %s: given other options than %s", compress_hosts(other_options).c_str(), own_name().c_str());

  run_.options = options_;
  run_.rails = workers_.rails();
  run_.worker = worker_kind_;
  run_.world = world_.name();
  run_.job = variable("SLURM_JOB_ID");
  // A full search tests every path, in whatever order; then the nodes' own order lets a round's plan be one number.
  order_ = fabric_order(options_.full || nodes == 3 ? std::vector<std::string>(cards.size()) : topologies);
  for (const int node : order_) run_.nodes.push_back(std::move(cards[static_cast<size_t>(node)]));
  PairSearchOptions search;
  search.threshold = options_.threshold;
  search.full = options_.full;
  search.alone = (options_.alone || nodes == 1) && run_.rails > 1;
  search_ = std::make_unique<PairSearch>(nodes, run_.rails, search);
  for (int i = 0; i < nodes; ++i)
    if (const auto at = early_lost_.find(order_[static_cast<size_t>(i)]); at != early_lost_.end())
      search_->lose(i, at->second);
  if (!options_.json.empty()) {
    auto sink = open_named(options_.json);
    if (!sink) return sink.error().text();
    json_.emplace(std::move(*sink));
    world_.slate().write(Slate::journal, json_->name());
    json_->write(json_start(run_));
  }
  return "";
}

// Rank 0: the next round, told to all.
RoundPlan PairsTask::decide(int round) {
  RoundPlan plan;
  std::optional<int> circle;
  std::vector<NodePair> pairs;
  if (!exchange_.interrupted()) pairs = search_->next_round();
  run_.complete = !exchange_.interrupted();
  if (pairs.empty()) {
    plan = end_of(run_.complete ? pairs_status(*search_) : static_cast<int>(ended_early), "");
  } else {
    circle = search_->circle_step();
    for (const NodePair& pair : pairs)
      plan.pairs.push_back({order_[static_cast<size_t>(pair.a)], order_[static_cast<size_t>(pair.b)]});
    for (size_t i = 0; i < order_.size(); ++i)
      if (search_->lost(static_cast<int>(i))) plan.lost.push_back(order_[i]);
    show_progress(print("round %d: %zu %s, %.0f s", round + 1, pairs.size(),
                        pairs.front().a == pairs.front().b ? "nodes alone" : "pairs", seconds_since(began_)));
  }
  announce(round, plan, circle);
  return plan;
}

void PairsTask::announce(int round, const RoundPlan& plan, std::optional<int> circle) {
  if (const auto error = exchange_.tell(plan_key(round), pack(plan, circle))) say(error->text());
}

// Rank 0: what became of the round.
void PairsTask::collect(const RoundPlan& plan, int round) {
  std::vector<int> ranks(static_cast<size_t>(exchange_.nodes()), -1);
  std::vector<int> partners(ranks.size(), -1);
  const auto leaders = exchange_.leaders();
  for (const NodePair& pair : plan.pairs)
    for (const auto& [node, other] : {std::pair(pair.a, pair.b), std::pair(pair.b, pair.a)}) {
      ranks[static_cast<size_t>(node)] = leaders[static_cast<size_t>(node)];
      if (node != other) partners[static_cast<size_t>(node)] = other;
    }
  const auto texts = exchange_.gather(ranks, node_report_key(round),
                                      in_seconds(round_seconds() + 2 * kSlack + kServerSeconds), partners);
  if (exchange_.interrupted()) return;  // half a round proves nothing
  std::vector<std::optional<std::vector<RailReport>>> reports(ranks.size());
  std::vector<int> index(order_.size());
  for (size_t i = 0; i < order_.size(); ++i) index[static_cast<size_t>(order_[i])] = static_cast<int>(i);
  for (size_t node = 0; node < ranks.size(); ++node) {
    const auto why = texts[node] ? cause_of_loss(*texts[node]) : std::nullopt;
    if (texts[node] && !why) reports[node] = unpack_reports(*texts[node]);
    if (ranks[node] >= 0 && (!texts[node] || why))
      search_->lose(index[node], why.value_or(print("no answer from its tasks in round %d", round + 1)));
  }
  std::vector<PairFigure> figures;
  for (const NodePair& pair : plan.pairs)
    for (int rail = 0; rail < run_.rails; ++rail) {
      const auto end = [&](int node) {
        const int i = index[static_cast<size_t>(node)];
        return std::pair(report_of(reports[static_cast<size_t>(node)], rail),
                         rail_name(run_.nodes[static_cast<size_t>(i)], rail));
      };
      const auto [a, name_a] = end(pair.a);
      const auto [b, name_b] = end(pair.b);
      figures.push_back(merge_reports({index[static_cast<size_t>(pair.a)], index[static_cast<size_t>(pair.b)]}, rail, a,
                                      b, name_a, name_b, "no answer from its task"));
    }
  const size_t had = search_->figures().size();
  search_->record(figures);
  if (json_) json_->write(json_figures(run_, *search_, had));
}

void PairsTask::finish(int status) {
  run_.seconds = seconds_since(began_);
  if (json_) json_->write(json_end(run_, *search_, status));
  Sink out(STDOUT_FILENO, "stdout", true);
  out.write(pairs_text(run_, *search_));
}

int run_pairs(const PairsOptions& options, const NicsOf& nics) {
  const Variables environment = own_environment();
  auto step = open_step(environment, options.worker, options.timeout);
  if (!step) return say(step.error().text()), cannot_run;
  // It outlives the task on purpose: a thread of it may still sit in a PMIx call when the process ends.
  Alarm& alarm = *new Alarm(step->world);
  int status = 0;
  {
    PairsTask task(options, environment, step->world, alarm, step->worker, step->signal_fd, nics);
    status = task.run();
  }
  std::fflush(nullptr);
  step->world.leave(in_seconds(5));
  return status;
}

}  // namespace nccltune::bench
