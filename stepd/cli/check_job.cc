// SPDX-License-Identifier: Apache-2.0
#include "cli/check_job.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "base/fd.h"
#include "base/text.h"
#include "bench/alarm.h"
#include "bench/environment.h"
#include "bench/gather.h"
#include "bench/obituary.h"
#include "bench/trouble.h"
#include "check/differences.h"
#include "cli/output.h"

namespace nccltune::cli {

namespace {

using bench::Deadline;
using bench::in_seconds;
using check::Finding;
using check::Status;

constexpr double kPatience = 60;  // for all nodes to come, and for one answer
constexpr const char* kTaskCheck = "job.tasks";
constexpr const char *kFactsKey = "nccltune.check", *kClockKey = "nccltune.check.clock";
// For keepers: see bench/slate.h. Nobody waits for what a task owes here, the alarm tells.
constexpr const char *kAlarmKey = "nccltune.check.alarm", *kOwedKey = "nccltune.check.lost",
                     *kDoneKey = "nccltune.check.done", *kByeKey = "nccltune.check.bye";
constexpr size_t kMostKinds = 64;  // unlike nodes whose facts are fetched; more than that is another kind of trouble
constexpr int kConnectMilliseconds = 5000;

// slurmd's name of the node: what scontrol wants, and the only one that tells several nodes of one host apart.
std::string own_host(const bench::Place& place) {
  const char* slurm_name = std::getenv("SLURMD_NODENAME");
  return slurm_name && *slurm_name ? slurm_name : place.hostname;
}

// The first IPv4 address of the interface that NCCL's sockets use here; "" when there is none.
std::string own_address(const check::Subject& subject) {
  const std::string name = value_in_force(subject.plan, "NCCL_SOCKET_IFNAME").value_or("");
  const NetInterface* net = subject.node.find_net(name.starts_with('=') ? name.substr(1) : name);
  if (net)
    for (const IpAddress& address : net->addresses)
      if (!address.v6) return address.text();
  return "";
}

// Listens there; the kernel answers the peers, nobody has to accept. "": "10.0.0.1:34567" could not be had.
std::string listen_on(const Fd& fd, const std::string& address) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  if (fd.get() < 0 || address.empty() || inet_pton(AF_INET, address.c_str(), &name.sin_addr) != 1) return "";
  socklen_t length = sizeof name;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 || ::listen(fd.get(), SOMAXCONN) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &length) != 0)
    return "";
  return fmt::format("{}:{}", address, ntohs(name.sin_port));
}

// "" when the connection came about, else why not.
std::string connect_to(const std::string& where) {
  const size_t colon = where.rfind(':');
  sockaddr_in name{};
  name.sin_family = AF_INET;
  const auto port = parse_int(where.substr(colon + 1), 1, 65535);
  if (!port || inet_pton(AF_INET, where.substr(0, colon).c_str(), &name.sin_addr) != 1) return "no such address";
  name.sin_port = htons(static_cast<uint16_t>(*port));
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return std::strerror(errno);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0) return "";
  if (errno != EINPROGRESS) return std::strerror(errno);
  pollfd wait{.fd = fd.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&wait, 1, kConnectMilliseconds) != 1) return "no answer in 5 s";
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error ? std::strerror(error) : "";
}

struct Member {  // what every node tells in the fence
  int rank = 0;
  std::string host, digest, address;
};

// Those of the tasks that speak for their node, in rank order.
std::vector<Member> members_of(bench::World& world) {
  std::vector<Member> members;
  for (int rank = 0; rank < world.place().size; ++rank) {
    auto text = world.get(rank, kFactsKey, in_seconds(1));
    if (!text || !*text) continue;
    const auto parts = split(**text, '\t');
    if (parts.size() == 3 && !parts[1].empty())
      members.push_back({rank, std::string(parts[0]), std::string(parts[1]), std::string(parts[2])});
  }
  return members;
}

Finding finding(const char* id, Status status, std::string object, std::string observed, std::string wanted,
                const char* why, std::string remedy) {
  return {id,
          "job",
          status,
          std::move(object),
          std::move(observed),
          std::move(wanted),
          why,
          std::move(remedy),
          "NVIDIA/nccl#286, #1581",
          ""};
}

void reach_peers(const std::vector<Member>& members, int own_rank, std::vector<Finding>& findings) {
  constexpr const char* kWhy = "NCCL's bootstrap connects every rank to its root and to its neighbour";
  const auto own = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.rank == own_rank; });
  if (own == members.end() || members.size() < 2) return;
  const Member& next = own + 1 == members.end() ? members.front() : *(own + 1);
  std::vector<const Member*> peers{&members.front()};
  if (next.rank != members.front().rank) peers.push_back(&next);
  for (const Member* peer : peers) {
    if (peer->rank == own_rank) continue;
    const std::string object = own->host + " to " + peer->host;
    if (peer->address.empty()) {
      findings.push_back(finding("job.reach", Status::skip, object, "no address to reach there", "", kWhy, ""));
      continue;
    }
    const std::string why_not = connect_to(peer->address);
    if (why_not.empty())
      findings.push_back(finding("job.reach", Status::ok, object, peer->address, "", kWhy, ""));
    else
      findings.push_back(
          finding("job.reach", Status::fail, object, peer->address + ": " + why_not, "a TCP connection", kWhy,
                  "look at firewall and routes: ip route get " + peer->address.substr(0, peer->address.rfind(':'))));
  }
}

// Whether a wait that began then is in vain: a task is gone. Asks other tasks once the wait grows long.
bool is_over(bench::Alarm& alarm, bench::Clock::time_point began) {
  if (bench::seconds_since(began) > 1) alarm.watch(true);
  return alarm.heard_of_loss();
}

// Comes back early when a task is gone, which comes to no fence; an error then too.
std::optional<Error> meet(bench::World& world, bench::Alarm& alarm) {
  const auto began = bench::Clock::now();
  return world.fence_unless([&] { return is_over(alarm, began); }, in_seconds(kPatience));
}

// A key of another task; absent: it is gone, or did not tell in time.
std::optional<std::string> hear(bench::World& world, bench::Alarm& alarm, int rank, const char* key) {
  const auto began = bench::Clock::now();
  auto text = bench::hear(world, rank, key, kPatience, [&] { return is_over(alarm, began); });
  return text ? std::move(*text) : std::nullopt;
}

// Rank 0: groups the nodes by digest, asks one of each group for its facts, and compares.
std::vector<Finding> compare(bench::World& world, bench::Alarm& alarm, const std::vector<Member>& members,
                             const check::NodeFacts& own) {
  std::map<std::string, std::vector<const Member*>> alike;
  for (const Member& member : members) alike[member.digest].push_back(&member);
  std::string asked;
  std::vector<const std::vector<const Member*>*> groups;
  groups.reserve(alike.size());
  for (const auto& [digest, group] : alike) groups.push_back(&group);
  std::sort(groups.begin(), groups.end(), [](const auto* a, const auto* b) {
    return a->size() != b->size() ? a->size() > b->size() : a->front()->rank < b->front()->rank;
  });
  if (groups.size() > kMostKinds) groups.resize(kMostKinds);
  for (const auto* group : groups) asked += fmt::format(" {}", group->front()->rank);
  if (world.put("nccltune.check.asked", asked) || world.commit()) return {};
  std::vector<check::AlikeNodes> kinds;
  for (const auto* group : groups) {
    check::AlikeNodes kind;
    if (group->front()->rank == world.place().rank) {
      kind.facts = own;
    } else {
      if (const auto facts = hear(world, alarm, group->front()->rank, "nccltune.check.facts"))
        kind.facts = check::unpack(*facts);
    }
    for (const Member* member : *group) kind.hosts.push_back(member->host);
    if (!kind.facts.values.empty()) kinds.push_back(std::move(kind));
  }
  return check::differences(kinds);
}

// The others: gives its facts when rank 0 asks for them.
void answer(bench::World& world, bench::Alarm& alarm, const check::NodeFacts& own) {
  const auto asked = hear(world, alarm, 0, "nccltune.check.asked");
  if (!asked) return;
  for (std::string_view rank : split_words(*asked))
    if (rank == std::to_string(world.place().rank)) {
      auto trouble = world.put("nccltune.check.facts", check::pack(own));
      if (!trouble) trouble = world.commit();
      if (trouble) say(*trouble);
    }
}

double time_of_day() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Rank 0, after the fence that collected them.
std::vector<check::NodeClock> clocks_of(bench::World& world, const std::vector<Member>& members) {
  std::vector<check::NodeClock> clocks;
  for (const Member& member : members)
    if (auto text = world.get(member.rank, kClockKey, in_seconds(1)); text && *text)
      clocks.push_back({member.host, std::strtod((*text)->c_str(), nullptr)});
  return clocks;
}

// Rank 0: who is not there, and why where a keeper told it.
std::vector<Finding> missing_tasks(bench::World& world, bench::Alarm& alarm, const char* key) {
  std::vector<std::pair<std::string, std::string>> gone;  // object, observed
  const auto heard = alarm.heard();
  const auto cause = heard ? bench::cause_of_loss(*heard) : std::nullopt;
  if (const size_t colon = cause ? cause->find(": ") : std::string::npos; colon != std::string::npos)
    gone.emplace_back(cause->substr(0, colon), cause->substr(colon + 2));
  else
    for (const std::string& task : bench::tasks_without(world, key))
      gone.emplace_back(task, fmt::format("no answer within {:.0f} s", kPatience));
  std::vector<Finding> findings;
  findings.reserve(gone.size());
  for (auto& [object, observed] : gone)
    findings.push_back({kTaskCheck, "job", Status::fail, std::move(object), std::move(observed),
                        "a task that checks its node and tells",
                        "what hangs or crashes a check there, a driver mostly, does the same to a job",
                        "run there alone: nccl-tune check; look at the kernel's log: dmesg -T | tail", "", ""});
  return findings;
}

}  // namespace

bench::Kept keep_step() {
  const auto environment = bench::own_environment();
  if (!bench::offers_world(environment)) return {bench::Slate::make()};
  const bench::Kept kept = bench::begin_keeping(environment, kPatience);
  if (kept.socket < 0) return kept;
  // Without its keeper this process has nobody: the signal's default ends it.
  sigset_t gone;
  sigemptyset(&gone);
  sigaddset(&gone, bench::keeper_gone_signal());
  pthread_sigmask(SIG_UNBLOCK, &gone, nullptr);
  kept.slate.write(bench::Slate::alarm, kAlarmKey);
  kept.slate.write(bench::Slate::owed, kOwedKey);
  kept.slate.write(bench::Slate::done, kDoneKey);
  kept.slate.write(bench::Slate::farewell, kByeKey);
  return kept;
}

bench::World* open_step(const bench::Kept& kept) {
  const auto environment = bench::own_environment();
  if (!bench::offers_world(environment)) return nullptr;
  auto world = bench::with_sockets_kept(kept, [&] { return bench::open_world(environment, in_seconds(kPatience)); });
  if (!world) {
    say(world.error());
    return nullptr;
  }
  bench::World& here = *world->release();
  here.keep_on(kept.slate);
  kept.slate.write(bench::Slate::place, fmt::format("{}\t1\t{}", here.place().rank, own_host(here.place())));
  if (here.place().size > 1) return &here;
  here.leave(in_seconds(kPatience));
  return nullptr;
}

void close_step(bench::World& world, bool complete) {
  const bool reports = world.place().rank == 0;
  if (!world.put(reports ? kDoneKey : kByeKey, "1")) world.commit();
  if (!complete && reports) std::this_thread::sleep_for(std::chrono::duration<double>(2 * bench::kKeeperPause));
  if (!complete && !reports) (void)world.get(0, kDoneKey, in_seconds(10 * bench::kKeeperPause));
  world.leave(in_seconds(10));
}

StepFindings check_step(bench::World& world, const check::Subject& subject) {
  const bench::Place& place = world.place();
  check::NodeFacts facts = check::facts_to_compare(subject);
  const std::string host = own_host(place);
  facts.host = host;
  const bool speaks = place.local_rank == 0;
  const Fd listener(speaks && subject.live() ? ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1);
  const std::string told =
      speaks ? fmt::format("{}\t{:016x}\t{}", host, check::digest_of(facts), listen_on(listener, own_address(subject)))
             : "-";
  StepFindings result;
  std::vector<Finding>& findings = result.findings;
  bench::Alarm alarm(world, kAlarmKey);
  auto trouble = world.put(kFactsKey, told);
  if (!trouble) trouble = world.commit();
  if (!trouble) trouble = meet(world, alarm);
  if (trouble) {
    if (place.rank == 0) findings = missing_tasks(world, alarm, kFactsKey);
    if (findings.empty()) say(*trouble);
    result.complete = false;
    return result;
  }
  const std::string clock = fmt::format("{:.3f}", time_of_day());
  const auto members = speaks ? members_of(world) : std::vector<Member>();
  if (speaks) {
    if (place.rank == 0)
      findings = compare(world, alarm, members, facts);
    else
      answer(world, alarm, facts);
    if (!alarm.heard_of_loss()) reach_peers(members, place.rank, findings);
  }
  // Nobody stops listening before all have tried.
  trouble = world.put(kClockKey, clock);
  if (!trouble) trouble = world.commit();
  if (!trouble) trouble = meet(world, alarm);
  if (trouble) {
    const auto gone = place.rank == 0 ? missing_tasks(world, alarm, kClockKey) : std::vector<Finding>();
    findings.insert(findings.end(), gone.begin(), gone.end());
    if (gone.empty()) say(*trouble);
    result.complete = false;
  } else if (place.rank == 0) {
    const auto clocks = check::clock_differences(clocks_of(world, members));
    findings.insert(findings.end(), clocks.begin(), clocks.end());
  }
  return result;
}

}  // namespace nccltune::cli
