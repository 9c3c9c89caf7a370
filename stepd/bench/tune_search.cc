// SPDX-License-Identifier: Apache-2.0
#include "bench/tune_search.h"

#include <algorithm>
#include <cmath>

namespace nccltune::bench {
namespace {

constexpr int kKept = 3;          // one of so many goes on (Jamieson & Talwalkar, AISTATS 2016: successive halving)
constexpr size_t kFinalists = 3;  // no further halving below
constexpr int kLastRung = 2;      // at least: 1 + 2 + 4 launches of each finalist
constexpr size_t kEnough = 7;     // those
constexpr int kMostRefinements = 3;
constexpr double kClearlyWorse = 4;  // standard errors behind the best: the round goes on without it
constexpr double kUntold = 2;        // standard errors within which a setting with fewer variables is preferred
constexpr double kWorthless = 0.03;  // and only where it costs no more of the speed than this
constexpr size_t kArmsAToday = 8;    // today's settings are in a block once for so many others: they set its level

// std::shuffle differs between libraries, and a search must go on elsewhere.
template <class T>
void shuffle(std::vector<T>& items, std::mt19937_64& random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random() % i]);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// Trials of a round that begins with n settings: blocks of 1, 2, 4 ... over what is left, and today's among them, until
// the finalists are found.
double trials_of_round(size_t n) {
  double trials = 0;
  for (int blocks = 1;; blocks *= 2) {
    trials += blocks * (static_cast<double>(n) + std::ceil(static_cast<double>(n) / kArmsAToday));
    if (n <= kFinalists) return trials;
    n = (n + kKept - 1) / kKept;
  }
}

}  // namespace

const char* name(Search::Stage stage) {
  static constexpr const char* kNames[] = {"each variable alone", "the good ones together", "around the best",
                                           "the best against today's", "over"};
  return kNames[static_cast<int>(stage)];
}

double Objective::score(const std::vector<double>& times, const std::vector<double>& reference) const {
  double sum = 0, total = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const double weight = by_calls ? weights[i] * reference[i] : weights[i];
    sum += weight * std::log(times[i]);
    total += weight;
  }
  return sum / total;
}

Search::Search(const Space& space, Objective objective, SearchOptions options)
    : space_(space), objective_(std::move(objective)), options_(options), random_(options.seed) {
  arms_[Setting(space.knobs.size(), 0)];
}

// ---- what has been learnt

double Search::block_level(int block) const {
  const auto at = today_.find(block);
  if (at != today_.end() && !at->second.empty()) return mean(at->second);
  std::vector<double> all;  // today's settings failed in that block
  for (const auto& [number, scores] : today_) all.insert(all.end(), scores.begin(), scores.end());
  return mean(all);
}

// Below 0: faster than today's settings.
double Search::estimate(const Arm& arm) const {
  std::vector<double> differences;
  for (const auto& [block, score] : arm.scores) differences.push_back(score - block_level(block));
  return mean(differences);
}

// The standard deviation of a launch against its block, pooled over all settings; 0 while too little is known.
double Search::noise() const {
  double squares = 0;
  int freedom = 0;
  for (const auto& [setting, arm] : arms_) {
    if (arm.scores.size() < 2) continue;
    const double middle = estimate(arm);
    for (const auto& [block, score] : arm.scores) squares += std::pow(score - block_level(block) - middle, 2);
    freedom += static_cast<int>(arm.scores.size()) - 1;
  }
  return freedom < 4 ? 0 : std::sqrt(squares / freedom);
}

// The fastest, a standard error being added to each: one lucky launch is no proof. Or one with fewer variables that was
// measured as well and is not told from it: each variable less is one less to explain.
std::optional<Setting> Search::champion() const {
  const double sigma = noise();
  const auto error = [&](const Arm& arm) { return sigma / std::sqrt(static_cast<double>(arm.scores.size())); };
  const std::pair<const Setting, Arm>* best = nullptr;
  for (const auto& entry : arms_) {
    if (entry.second.dead || entry.second.scores.empty() || count_set(entry.first) == 0) continue;
    if (best == nullptr || estimate(entry.second) + error(entry.second) < estimate(best->second) + error(best->second))
      best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  const Arm& fastest = best->second;
  for (const auto& entry : arms_) {
    const Arm& arm = entry.second;
    if (arm.dead || count_set(entry.first) == 0 || arm.scores.size() < std::min(fastest.scores.size(), kEnough))
      continue;
    const double bound = estimate(fastest) + std::min(kWorthless, kUntold * std::hypot(error(arm), error(fastest)));
    if (estimate(arm) <= bound && count_set(entry.first) < count_set(best->first)) best = &entry;
  }
  return best->first;
}

std::optional<Search::Estimate> Search::best() const {
  const auto setting = decision_ ? std::optional(decision_->setting) : champion();
  if (!setting) return std::nullopt;
  const Arm& arm = arms_.at(*setting);
  const double gain = std::exp(-estimate(arm)) - 1;
  if (gain <= 0) return std::nullopt;
  return Estimate{*setting, gain, static_cast<int>(arm.scores.size())};
}

int Search::settings_tried() const {
  const auto failed = [this](const Setting& setting) {
    return std::any_of(failed_.begin(), failed_.end(), [&](const Failed& f) { return f.setting == setting; });
  };
  return static_cast<int>(std::count_if(arms_.begin(), arms_.end(), [&](const auto& entry) {
    return count_set(entry.first) > 0 && (!entry.second.scores.empty() || failed(entry.first));
  }));
}

std::vector<std::string> Search::untried() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < space_.knobs.size(); ++i) {
    const bool tried = std::any_of(arms_.begin(), arms_.end(), [&](const auto& entry) {
      return entry.first[i] > 0 && (entry.second.dead || !entry.second.scores.empty());
    });
    if (!tried) names.push_back(space_.knobs[i].name);
  }
  return names;
}

// ---- what it costs

double Search::cost() const { return good_trials_ > 0 ? good_seconds_ / good_trials_ : 0; }
// A fifth of the budget, for the launches that decide.
double Search::reserve() const {
  const double pairs = cost() > 0 ? options_.budget / cost() / 10 : 0;
  return 2 * cost() * std::clamp(std::floor(pairs), 1.0 * kFewestLaunches, 1.0 * options_.launches);
}
bool Search::affords(double trials) const { return spent_ + trials * cost() <= options_.budget - reserve(); }

std::vector<Setting> Search::affordable(std::vector<Setting> population, double share) const {
  const double seconds = share * (options_.budget - spent_ - reserve());
  while (population.size() > 1 && trials_of_round(population.size()) * cost() > seconds) population.pop_back();
  return population;
}

// ---- rounds

void Search::open_round(Stage stage, std::vector<Setting> population, double share) {
  stage_ = stage;
  std::erase_if(population, [this](const Setting& s) { return arms_.count(s) > 0 && arms_.at(s).dead; });
  round_end_ = spent_ + share * (options_.budget - spent_ - reserve());
  alive_ = affordable(std::move(population), share);
  rung_ = 0;
  blocks_left_ = 1;
  round_champion_ = champion();
  for (const Setting& setting : alive_) arms_[setting];
  open_block();
}

void Search::open_block() {
  ++block_;
  const size_t today = (alive_.size() + kArmsAToday - 1) / kArmsAToday;
  if (alive_.empty() || !affords(static_cast<double>(alive_.size() + today))) {
    decide();
    return;
  }
  queue_ = alive_;
  for (size_t i = 0; i < today; ++i) queue_.emplace_back(space_.knobs.size(), 0);
  shuffle(queue_, random_);
}

// Those that are far behind already: the rest of the round is for the others.
void Search::drop_hopeless() {
  const double sigma = noise();
  if (sigma == 0) return;
  const Arm* best = nullptr;
  for (const Setting& setting : alive_) {
    const Arm& arm = arms_.at(setting);
    if (!arm.scores.empty() && (best == nullptr || estimate(arm) < estimate(*best))) best = &arm;
  }
  if (best == nullptr) return;
  std::erase_if(alive_, [&](const Setting& setting) {
    const Arm& arm = arms_.at(setting);
    if (arm.scores.empty() || &arm == best) return false;
    const double error = sigma * std::sqrt(1.0 / static_cast<double>(arm.scores.size()) +
                                           1.0 / static_cast<double>(best->scores.size()));
    return estimate(arm) > estimate(*best) + kClearlyWorse * error;
  });
}

void Search::close_block() {
  std::erase_if(alive_, [this](const Setting& setting) { return arms_.at(setting).dead; });
  if (rung_ > 0 || block_ > 0) drop_hopeless();
  if (--blocks_left_ > 0)
    open_block();
  else
    next_rung();
}

void Search::next_rung() {
  // The finalists get their launches where the round has the time.
  const double trials = (2 << rung_) * static_cast<double>(alive_.size() + 1);
  if (alive_.size() <= kFinalists && (rung_ >= kLastRung || spent_ + trials * cost() > round_end_)) {
    close_round();
    return;
  }
  if (alive_.size() > kFinalists) {
    std::stable_sort(alive_.begin(), alive_.end(), [this](const Setting& a, const Setting& b) {
      return estimate(arms_.at(a)) < estimate(arms_.at(b));
    });
    alive_.resize((alive_.size() + kKept - 1) / kKept);
  }
  ++rung_;
  blocks_left_ = 1 << rung_;
  open_block();
}

void Search::close_round() {
  const std::optional<Setting> now = champion();
  if (exhaustive_ || !now) return decide();
  if (stage_ == Stage::screen) {
    std::vector<Setting> together = combinations();
    if (together.size() < 2) return open_round(Stage::refine, neighbours(*now), 1);
    return open_round(Stage::combine, std::move(together), 0.6);
  }
  const bool better = now != round_champion_ && refinements_ < kMostRefinements;
  if (stage_ != Stage::combine && !better) return decide();
  ++refinements_;
  open_round(Stage::refine, neighbours(*now), stage_ == Stage::combine ? 0.7 : 1);
}

// The deciding launches, both sides in pairs, the order within a pair by lot.
void Search::decide() {
  queue_.clear();
  const std::optional<Setting> best = champion();
  if (!best) return finish("every setting failed");
  // Launches that chose the best flatter it, so what looks like no gain here has none.
  const double gain = std::exp(-estimate(arms_.at(*best))) - 1;
  if (gain < options_.min_gain / 2) return finish("no setting looked faster than today's");
  const int pairs = std::min(
      options_.launches, cost() > 0 ? static_cast<int>((options_.budget - spent_) / (2 * cost())) : options_.launches);
  if (pairs < kFewestLaunches) return finish("the time was too short for launches that decide");
  stage_ = Stage::decide;
  decision_ = Decision{*best, {}, {}, ""};
  const Setting today(space_.knobs.size(), 0);
  for (int i = 0; i < pairs; ++i) {
    const bool first = random_() % 2 == 0;
    queue_.push_back(first ? today : *best);
    queue_.push_back(first ? *best : today);
  }
}

void Search::finish(std::string reason) {
  stage_ = Stage::over;
  queue_.clear();
  if (end_reason_.empty()) end_reason_ = std::move(reason);
}

std::optional<Setting> Search::next() {
  if (stage_ == Stage::over) return std::nullopt;
  // What a trial costs is known after the first; only then can the rounds be planned.
  if (trials_ == 0) return Setting(space_.knobs.size(), 0);
  if (block_ < 0 && queue_.empty() && stage_ == Stage::screen) {
    if (reference_.empty()) return Setting(space_.knobs.size(), 0);  // today's settings failed: once more
    std::vector<Setting> all = singles();
    // A small space as a whole: nothing is left to chance then.
    const double grid = space_.grid_size() - 1;
    if (grid >= 1 && grid <= 64 &&
        trials_of_round(static_cast<size_t>(grid)) * cost() <= options_.budget - spent_ - reserve()) {
      all.clear();
      Setting setting(space_.knobs.size(), 0);
      for (size_t i = 0; i < setting.size();) {
        for (i = 0; i < setting.size(); ++i) {  // count up
          if (setting[i] < space_.knobs[i].values.size()) {
            ++setting[i];
            break;
          }
          setting[i] = 0;
        }
        if (i < setting.size() && is_legal(space_, setting)) all.push_back(setting);
      }
      exhaustive_ = true;
    }
    open_round(Stage::screen, std::move(all), exhaustive_ ? 1 : 0.5);
  }
  while (stage_ != Stage::over) {
    while (stage_ != Stage::decide && !queue_.empty() && is_tainted(queue_.back())) {
      arms_[queue_.back()].dead = true;
      queue_.pop_back();
    }
    if (!queue_.empty()) break;
    if (stage_ == Stage::decide)
      finish("");
    else
      close_block();
  }
  if (stage_ == Stage::over) return std::nullopt;
  return queue_.back();
}

void Search::tell(const Answer& answer) {
  const bool measured = !queue_.empty();
  const Setting setting = measured ? queue_.back() : Setting(space_.knobs.size(), 0);
  if (measured) queue_.pop_back();
  ++trials_;
  spent_ += answer.seconds;
  const bool today = count_set(setting) == 0;
  if (answer.times.empty()) {
    failed_.push_back({setting, answer.fault, answer.wrong_data});
    if (today && (answer.wrong_data || ++today_failures_ >= 2)) finish("today's settings fail");
    if (today && stage_ == Stage::decide) decision_->today.emplace_back();  // its pair does not count
    if (today) return;
    arms_[setting].dead = true;
    if (stage_ == Stage::decide) {
      decision_->fault = answer.fault;
      finish("the best setting failed in the end");
    }
    return;
  }
  good_seconds_ += answer.seconds;
  ++good_trials_;
  if (today && reference_.empty()) reference_ = answer.times;
  if (stage_ == Stage::decide) {
    (today ? decision_->today : decision_->best).push_back(answer.times);
    return;
  }
  const double score = objective_.score(answer.times, reference_);
  if (today) today_[block_].push_back(score);
  if (!today) arms_[setting].scores.emplace_back(block_, score);
}

}  // namespace nccltune::bench
