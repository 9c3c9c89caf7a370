// SPDX-License-Identifier: Apache-2.0
// Which setting to measure next, and which one is the best: successive halving over a declared space, within a budget
// of seconds. Pure: no clock, no files; the same seed and the same answers give the same questions, which is how a
// search that was killed goes on (tune_state.h).
//
// Rounds: every variable alone; the good ones together; the best one and its neighbours, until it stays. In each round
// all settings are measured once (a block, today's settings among them, in random order), the better third goes on to
// two more blocks, the better third of those to four more. A small space is one round over all of it. At the end the
// best setting meets today's in launches of their own: those alone decide, for the best of many is partly luck.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench/tune_space.h"

namespace nccltune::bench {

// What a setting is judged by: the weighted mean of the logarithm of each entry's time. A difference of two scores is
// the logarithm of how much faster one is.
struct Objective {
  std::vector<double> weights;  // one for each (work, size); their sum need not be 1
  bool by_calls = false;        // the weights are calls: the share in time comes from the first run of today's settings

  // `times` in seconds; `reference`: those of today's settings, for by_calls.
  double score(const std::vector<double>& times, const std::vector<double>& reference) const;
};

struct SearchOptions {
  double budget = 1800;  // seconds of trials, the deciding launches included
  uint64_t seed = 1;
  int launches = 10;       // of each side in the end, where the budget allows; kFewestLaunches at least
  double min_gain = 0.01;  // what is not faster by so much is not worth a profile
};

inline constexpr int kFewestLaunches = 6;  // of each side: below, chance alone could look like a difference too often

// A trial as it ended.
struct Answer {
  std::vector<double> times;  // seconds, one for each entry of the objective; empty: it failed
  std::string fault;          // one line; "" when it did not
  bool wrong_data = false;
  double seconds = 0;  // what it cost
};

class Search {
 public:
  enum class Stage { screen, combine, refine, decide, over };

  Search(const Space& space, Objective objective, SearchOptions options);

  // What to measure next; nullopt: the search is over. Asked again without an answer, it says the same.
  std::optional<Setting> next();
  // The answer to next().
  void tell(const Answer& answer);

  Stage stage() const { return stage_; }
  double spent() const { return spent_; }
  int trials() const { return trials_; }
  int settings_tried() const;                      // besides today's
  bool exhaustive() const { return exhaustive_; }  // all settings of the space were tried

  struct Estimate {
    Setting setting;
    double gain = 0;  // of speed over today's: 0.05 is 5 % faster; of the search's own launches, so too good
    int launches = 0;
  };
  // The best so far; nullopt: nothing is better than today's settings yet.
  std::optional<Estimate> best() const;

  // The launches that decide: times of each entry; element i of both sides is a pair. Empty: that launch failed.
  struct Decision {
    Setting setting;
    std::vector<std::vector<double>> today, best;
    std::string fault;  // the best setting failed in the end; "" when it did not
  };
  const std::optional<Decision>& decision() const { return decision_; }
  double score(const std::vector<double>& times) const { return objective_.score(times, reference_); }

  struct Failed {
    Setting setting;
    std::string fault;
    bool wrong_data = false;
  };
  const std::vector<Failed>& failed() const { return failed_; }
  // Why there is nothing to decide, or to go on with; "" when there is.
  const std::string& end_reason() const { return end_reason_; }
  // Variables that were never measured, for want of time.
  std::vector<std::string> untried() const;

 private:
  struct Arm {
    std::vector<std::pair<int, double>> scores;  // block, score
    bool dead = false;
  };

  void open_round(Stage stage, std::vector<Setting> population, double share);
  void open_block();
  void close_block();
  void next_rung();
  void close_round();
  void drop_hopeless();
  void finish(std::string reason);
  void decide();

  std::vector<Setting> singles() const;
  std::vector<Setting> combinations() const;
  std::vector<Setting> neighbours(const Setting& of) const;
  std::vector<Setting> affordable(std::vector<Setting> population, double share) const;
  bool is_tainted(const Setting& setting) const;
  void add_with_bases(Setting setting, std::vector<Setting>& to) const;

  double block_level(int block) const;
  double estimate(const Arm& arm) const;
  double noise() const;
  std::optional<Setting> champion() const;
  double reserve() const;
  double cost() const;
  bool affords(double trials) const;

  const Space& space_;
  Objective objective_;
  SearchOptions options_;
  std::mt19937_64 random_;

  Stage stage_ = Stage::screen;
  std::map<Setting, Arm> arms_;
  std::vector<Setting> alive_;  // in this round, without today's
  std::vector<Setting> queue_;  // of this block, the next one last
  int block_ = -1, blocks_left_ = 0, rung_ = 0, refinements_ = 0;
  std::map<int, std::vector<double>> today_;  // scores of today's settings, by block
  std::vector<double> reference_;             // times of the first of them
  std::optional<Setting> round_champion_;
  double spent_ = 0, good_seconds_ = 0, round_end_ = 0;
  int trials_ = 0, good_trials_ = 0, today_failures_ = 0;
  bool exhaustive_ = false;
  std::vector<Failed> failed_;
  std::optional<Decision> decision_;
  std::string end_reason_;
};

const char* name(Search::Stage stage);

}  // namespace nccltune::bench
