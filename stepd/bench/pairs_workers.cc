// SPDX-License-Identifier: Apache-2.0
#include "bench/pairs_workers.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "bench/collectives.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr double kPartingSeconds = 15;  // for a communicator to be freed; a worker that needs more is replaced

// The crew's words begin with "rank 13 at host: "; here nodes and rails have names of their own.
std::string without_rank(const std::string& text) {
  const size_t end = text.find(": ");
  return text.starts_with("rank ") && end != std::string::npos ? text.substr(end + 2) : text;
}

// NCCL's errors come from the other end as often as from this one.
RailReport::Blame blame_of(const Fault& fault) {
  using protocol::FailureKind;
  switch (fault.kind) {
    case Fault::Kind::died:
    case Fault::Kind::orphaned:
      return RailReport::Blame::died;
    case Fault::Kind::failed:
      return fault.failure == FailureKind::transport || fault.failure == FailureKind::timeout ||
                     fault.failure == FailureKind::nccl
                 ? RailReport::Blame::transport
                 : RailReport::Blame::broke;
    case Fault::Kind::alarm:
      return RailReport::Blame::transport;
    default:
      return RailReport::Blame::hung;
  }
}

}  // namespace

std::string over_key(int round, int rail) { return print("pairs.over.%d.%d", round, rail); }

PairsWorkers::PairsWorkers(const PairsOptions& options, const std::map<std::string, std::string>& environment,
                           World& world, Alarm& alarm, ChosenWorker worker, PairsExchange& exchange, int signal_fd,
                           std::function<std::string(const std::string&)> nics)
    : options_(options),
      environment_(environment),
      world_(world),
      worker_(std::move(worker)),
      exchange_(exchange),
      nics_(std::move(nics)),
      crew_(world, alarm, signal_fd, world.place().rank * options.gpus, options.gpus),
      rails_(static_cast<int>(exchange.tasks_of(exchange.node()).size()) * options.gpus) {
  const auto count = static_cast<size_t>(options.gpus);
  cards_.resize(count), reports_.resize(count), seats_.resize(count), ids_.resize(count);
  connected_.resize(count);
}

WorkerProcess::Start PairsWorkers::start_of(int i) const {
  WorkerProcess::Start start;
  start.program = worker_.program;
  start.label = print("rank %d", world_.place().rank * options_.gpus + i);
  // NCCL takes ranks of one host id for one host, and two of them on one GPU for a mistake.
  if (options_.tasks_as_nodes && !environment_.contains("NCCL_HOSTID"))
    start.environment.emplace_back("NCCL_HOSTID", print("%s-%d", world_.place().hostname.c_str(), world_.place().rank));
  return start;
}

std::vector<RailCard> PairsWorkers::open() {
  std::vector<WorkerProcess::Start> starts;
  for (int i = 0; i < options_.gpus; ++i) {
    starts.push_back(start_of(i));
    cards_[static_cast<size_t>(i)].rail = reports_[static_cast<size_t>(i)].rail = first_rail() + i;
  }
  if (const auto fault = crew_.start(starts)) {
    for (int i = 0; i < options_.gpus; ++i) fail(i, RailReport::Blame::broke, fault->text);
  } else {
    set_up(std::vector<bool>(static_cast<size_t>(options_.gpus), true), options_.timeout);
  }
  for (int i = 0; i < options_.gpus; ++i)
    cards_[static_cast<size_t>(i)].failure = reports_[static_cast<size_t>(i)].failure;
  return cards_;
}

void PairsWorkers::set_up(const std::vector<bool>& which, double patience) {
  const auto wanted = environment_.find("NCCL_TESTS_DEVICE");
  const auto base = wanted == environment_.end() ? std::nullopt : parse_integer(wanted->second, 0, 1 << 16);
  Payloads payloads(which.size());
  for (size_t i = 0; i < which.size(); ++i) {
    if (!which[i]) continue;
    protocol::Setup setup;
    // The worker takes the only device where it sees but one.
    setup.device =
        static_cast<int32_t>(base.value_or(world_.place().local_rank * options_.gpus) + static_cast<int64_t>(i));
    setup.check = options_.check;
    if (options_.fault_task == world_.place().rank) {
      setup.fault = options_.fault;
      setup.fault_rank = protocol::kAnyRank;
    }
    payloads[i] = std::string(bytes_of(setup));
  }
  const auto answers = step(protocol::Kind::setup, payloads, protocol::Kind::ready, in_seconds(patience));
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto ready = answers[i] ? answers[i]->as<protocol::Ready>() : std::nullopt;
    if (!ready) continue;
    RailCard& card = cards_[i];
    card.gpu = text_of(ready->name), card.bdf = text_of(ready->bdf), card.uuid = text_of(ready->uuid);
    card.library = text_of(ready->library);
    card.nics = nics_(card.bdf);
  }
}

PairsWorkers::Seating PairsWorkers::seating(int i, const NodePair& pair, int round) const {
  const int rail = first_rail() + i;
  Seating seat;
  // Keys of one communicator must not meet those of another: rounds and rails number it.
  seat.generation = static_cast<uint32_t>(round * rails_ + (alone_ ? 0 : rail)) + 1;
  if (alone_) {
    const auto& tasks = exchange_.tasks_of(exchange_.node());
    for (int r = 0; r < rails_; ++r) seat.tasks.push_back(tasks[static_cast<size_t>(r / options_.gpus)]);
    seat.rank = rail;
  } else {
    for (const int node : {pair.a, pair.b})
      seat.tasks.push_back(exchange_.tasks_of(node)[static_cast<size_t>(rail / options_.gpus)]);
    seat.rank = exchange_.node() == pair.b;
  }
  seat.id_key = print("pairs.id.%d.%d", round, alone_ ? 0 : rail);
  seat.round = round;
  return seat;
}

std::vector<RailReport> PairsWorkers::run(const NodePair& pair, int round) {
  const Deadline end = in_seconds(2 * options_.timeout);
  alone_ = pair.a == pair.b;
  for (int i = 0; i < options_.gpus; ++i) {
    const auto at = static_cast<size_t>(i);
    seats_[at] = seating(i, pair, round);
    connected_[at] = false;
    if (well(i))
      crew_.seat(i, seats_[at].tasks);
    else
      fail(i, reports_[at].blame, reports_[at].failure);  // tells its peers
  }
  exchange_ids(end);

  Payloads connects, cases;
  for (int i = 0; i < options_.gpus; ++i) {
    const Seating& seat = seats_[static_cast<size_t>(i)];
    const std::string& id = ids_[static_cast<size_t>(i)];
    protocol::Connect connect;
    connect.ranks = static_cast<int32_t>(seat.tasks.size());
    connect.rank = seat.rank;
    connect.id_bytes = static_cast<uint32_t>(id.size());
    connect.generation = seat.generation;
    connect.max_bytes = options_.bytes;
    connects.emplace_back(std::string(bytes_of(connect)) + id);
    protocol::Case job;
    job.collective = alone_ ? protocol::Collective::all_reduce : options_.collective;
    job.bytes = job.max_bytes = options_.bytes;
    job.root = info_of(job.collective).has_root ? 0 : -1;
    job.iterations = options_.iterations;
    job.warmup = options_.warmup;
    job.check = options_.check;
    cases.emplace_back(bytes_of(job));
  }
  const auto joined = step(protocol::Kind::connect, connects, protocol::Kind::connected, end);
  for (size_t i = 0; i < joined.size(); ++i) connected_[i] = reports_[i].reached = joined[i].has_value();
  if (options_.warmup > 0) {
    Payloads warm = cases;
    for (auto& payload : warm) {
      protocol::Case job;
      std::memcpy(&job, payload->data(), sizeof job);
      job.warm_only = 1;
      payload = std::string(bytes_of(job));
    }
    step(protocol::Kind::run, warm, protocol::Kind::result, end);
  }
  const auto results = step(protocol::Kind::run, cases, protocol::Kind::result, end);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i]) take_result(static_cast<int>(i), *results[i]);
  return reports_;
}

// Rank 0 of each communicator makes its id and its task tells it; the host worker's ranks meet without one.
void PairsWorkers::exchange_ids(Deadline end) {
  for (std::string& id : ids_) id.clear();
  if (worker_.kind == "host") return;
  Payloads asked(seats_.size());
  for (size_t i = 0; i < seats_.size(); ++i)
    if (seats_[i].rank == 0) asked[i] = "";
  auto made = step(protocol::Kind::make_id, asked, protocol::Kind::id, end);
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i]) continue;
    ids_[i] = made[i]->payload;
    if (const auto error = exchange_.tell(seats_[i].id_key, ids_[i]))
      fail(static_cast<int>(i), RailReport::Blame::broke, error->text());
  }
  const Deadline patience = std::min(end, in_seconds(options_.timeout));
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].rank == 0 || !well(static_cast<int>(i))) continue;
    const int owner = seats_[i].tasks.front();
    if (owner == world_.place().rank) {  // of a node alone, whose rank 0 is here
      ids_[i] = ids_.front();
      if (!ids_[i].empty()) continue;
    }
    for (;;) {
      if (auto id = exchange_.hear(owner, seats_[i].id_key, std::min(patience, in_seconds(1)))) {
        ids_[i] = std::move(*id);
        break;
      }
      const auto why = peer_gave_up(static_cast<int>(i), patience);
      if (!why && !exchange_.interrupted()) continue;
      fail(static_cast<int>(i), RailReport::Blame::transport, why.value_or("interrupted"));
      break;
    }
  }
}

std::vector<std::optional<Message>> PairsWorkers::step(protocol::Kind kind, const Payloads& payloads,
                                                       protocol::Kind expected, Deadline end) {
  Payloads asked(payloads.size());
  bool any = false;
  for (size_t i = 0; i < payloads.size(); ++i)
    if (payloads[i] && well(static_cast<int>(i))) asked[i] = payloads[i], any = true;
  if (!any || crew_.size() == 0) return std::vector<std::optional<Message>>(payloads.size());
  std::optional<Fault> interruption;
  const auto gone = [&](int i) { return peer_gave_up(i, end); };
  auto own =
      crew_.ask_each(kind, asked, expected, std::clamp(seconds_until(end), 1.0, options_.timeout), gone, interruption);
  if (interruption) exchange_.note_interruption(interruption->signal ? interruption->signal : SIGTERM);
  std::vector<std::optional<Message>> answers;
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i].fault)
      fail(static_cast<int>(i), blame_of(*own[i].fault), without_rank(own[i].fault->text));
    else if (asked[i] && !own[i].answer)
      fail(static_cast<int>(i), RailReport::Blame::hung, "interrupted");
    answers.push_back(std::move(own[i].answer));
  }
  return answers;
}

void PairsWorkers::fail(int i, RailReport::Blame blame, std::string why) {
  RailReport& report = reports_[static_cast<size_t>(i)];
  report.gbps = 0;
  report.blame = blame;
  report.failure = std::move(why);
  // Others that wait for this worker learn it from its task: first come, first told, for a key is put once.
  const Seating& seat = seats_[static_cast<size_t>(i)];
  if (seat.round >= 0) exchange_.tell(over_key(seat.round, report.rail), report.failure);
}

// Why it is no use to wait on. A peer's failure is the effect of ours as often as the cause, so it is only believed
// once our own worker has had a second of its own.
std::optional<std::string> PairsWorkers::peer_gave_up(int i, Deadline end) {
  Seating& seat = seats_[static_cast<size_t>(i)];
  for (int rank = 0; rank < static_cast<int>(seat.tasks.size()); ++rank) {
    const int task = seat.tasks[static_cast<size_t>(rank)];
    if (task == world_.place().rank || seat.peer_is_silent) continue;
    const int rail = alone_ ? rank : reports_[static_cast<size_t>(i)].rail;
    const auto began = Clock::now();
    if (auto text = exchange_.look(task, over_key(seat.round, rail)))
      return print("gave up, for its peer did: %s", text->c_str());
    // Further questions would only keep our own server from answering others.
    seat.peer_is_silent = seconds_since(began) > PairsExchange::kSlowAnswer;
  }
  if (passed(end)) return "the round's time is up, in phase " + crew_.phase_of(i);
  return std::nullopt;
}

void PairsWorkers::take_result(int i, const Message& message) {
  const auto result = message.as<protocol::CaseResult>();
  if (!result) return fail(i, RailReport::Blame::broke, "the worker's answer is too short; is it of this build?");
  const CollectiveInfo& info = info_of(alone_ ? protocol::Collective::all_reduce : options_.collective);
  const int ranks = static_cast<int>(seats_[static_cast<size_t>(i)].tasks.size());
  for (const protocol::Placement* placement : {&result->out_of_place, &result->in_place}) {
    if (!placement->checked || placement->wrong.elements == 0) continue;
    fail(
        i, RailReport::Blame::data,
        print("wrong data: %lld elements, the first at %lld, %s in place of %s",
              static_cast<long long>(placement->wrong.elements), static_cast<long long>(placement->wrong.first.element),
              text_of(placement->wrong.first.found).c_str(), text_of(placement->wrong.first.expected).c_str()));
    return;
  }
  const double algorithm = algorithm_gbs(info, result->bytes, result->out_of_place.seconds, ranks);
  reports_[static_cast<size_t>(i)].gbps = bus_gbs(info, algorithm, ranks);
}

void PairsWorkers::part() {
  Payloads payloads(seats_.size());
  for (size_t i = 0; i < seats_.size(); ++i)
    if (connected_[i]) payloads[i] = "";
  // Figures are told by now: what goes wrong from here on costs the worker, not the pair.
  for (Seating& seat : seats_) seat = {};
  step(protocol::Kind::disconnect, payloads, protocol::Kind::disconnected, in_seconds(kPartingSeconds));
  std::vector<bool> fresh(seats_.size(), false);
  for (int i = 0; i < options_.gpus; ++i) {
    const auto at = static_cast<size_t>(i);
    connected_[at] = false;
    fresh[at] = crew_.size() > 0 && (!well(i) || crew_.ended(i));
    if (crew_.size() == 0) continue;  // none could be started
    reports_[at] = {first_rail() + i, 0, RailReport::Blame::transport, false, ""};
    if (!fresh[at]) continue;
    if (const auto fault = crew_.replace(i, start_of(i))) fail(i, RailReport::Blame::broke, without_rank(fault->text));
  }
  if (std::find(fresh.begin(), fresh.end(), true) != fresh.end()) set_up(fresh, options_.timeout);
}

}  // namespace nccltune::bench
