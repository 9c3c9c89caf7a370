// SPDX-License-Identifier: Apache-2.0
// The workers of one task through the rounds of a search for bad nodes: each round they join communicators of two (or,
// a node alone, of all its GPUs), measure and part. One that crashed, hung or refused is replaced by a fresh one.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/choose_worker.h"
#include "bench/crew.h"
#include "bench/pairs_exchange.h"
#include "bench/pairs_options.h"
#include "bench/pairs_wire.h"

namespace nccltune::bench {

// The key under which a task tells that a worker of its has given up in that round.
std::string over_key(int round, int rail);

class PairsWorkers {
 public:
  // `nics`: of the plan beside a GPU, by its BDF ("" for host memory).
  PairsWorkers(const PairsOptions& options, const std::map<std::string, std::string>& environment, World& world,
               Alarm& alarm, ChosenWorker worker, PairsExchange& exchange, int signal_fd,
               std::function<std::string(const std::string&)> nics);

  // Starts them and opens their devices. A card for each worker, its failure among it.
  std::vector<RailCard> open();
  // One round; `pair` as in the plan, a being the node whose rail holds rank 0. A report for each worker; never throws,
  // lasts at most twice the timeout and some seconds.
  std::vector<RailReport> run(const NodePair& pair, int round);
  // Frees the communicators and readies a worker in each place for the next round.
  void part();
  void dismiss() { crew_.dismiss(5); }

  int rails() const { return rails_; }

 private:
  struct Seating {            // of one worker in this round
    std::vector<int> tasks;   // of the communicator's ranks
    int rank = 0;             // its own
    uint32_t generation = 0;  // names the communicator
    std::string id_key;
    int round = -1;               // -1: between two rounds, and nobody waits
    bool peer_is_silent = false;  // its server answered nothing: it is not asked again
  };
  using Payloads = std::vector<std::optional<std::string>>;

  WorkerProcess::Start start_of(int i) const;
  void set_up(const std::vector<bool>& which, double patience);
  Seating seating(int i, const NodePair& pair, int round) const;
  void exchange_ids(Deadline end);
  // Sends to those without a failure so far, and keeps what became of each.
  std::vector<std::optional<Message>> step(protocol::Kind kind, const Payloads& payloads, protocol::Kind expected,
                                           Deadline end);
  void fail(int i, RailReport::Blame blame, std::string why);
  void take_result(int i, const Message& message);
  std::optional<std::string> peer_gave_up(int i, Deadline end);
  int first_rail() const { return exchange_.local_rank() * options_.gpus; }
  bool well(int i) const { return reports_[static_cast<size_t>(i)].failure.empty(); }

  const PairsOptions& options_;
  const std::map<std::string, std::string>& environment_;
  World& world_;
  ChosenWorker worker_;
  PairsExchange& exchange_;
  std::function<std::string(const std::string&)> nics_;
  Crew crew_;
  int rails_;
  std::vector<RailCard> cards_;
  std::vector<RailReport> reports_;
  std::vector<Seating> seats_;
  std::vector<std::string> ids_;
  std::vector<bool> connected_;
  bool alone_ = false;
};

}  // namespace nccltune::bench
