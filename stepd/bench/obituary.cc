// SPDX-License-Identifier: Apache-2.0
#include "bench/obituary.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/alarm.h"
#include "bench/json.h"
#include "bench/pairs_exchange.h"
#include "bench/report_json.h"
#include "bench/report_text.h"
#include "bench/sink.h"
#include "bench/text.h"
#include "bench/trouble.h"
#include "bench/world.h"

namespace nccltune::bench {
namespace {

constexpr int kStatus = 5;             // as for any rank that died
constexpr double kUnknownReport = 10;  // seconds for the others, where no key says when they are done
constexpr double kMostFarewell = 600;  // seconds for all tasks to end what they are at
constexpr double kMostSilence = 120;   // seconds; a server may hang for a while with a node that is gone

void say(const std::string& text) { std::fprintf(stderr, "nccl-tune: %s\n", text.c_str()); }

// "rank 3 at node7", or what the launcher calls the task when the supervisor died before it knew.
struct Dead {
  std::string name;
  int per_task = 1;
};
Dead who(const Variables& environment, const Slate& slate) {
  const auto place = split(slate.read(Slate::place), '\t');
  if (place.size() == 3) {
    const int first = std::atoi(place[0].c_str()), count = std::atoi(place[1].c_str());
    return {(count > 1 ? print("ranks %d-%d", first, first + count - 1) : print("rank %d", first)) + " at " + place[2],
            count};
  }
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  for (const char* variable : {"PMIX_RANK", "SLURM_PROCID", "PMI_RANK"})
    if (const auto at = environment.find(variable); at != environment.end())
      return {print("task %s at %s", at->second.c_str(), host)};
  return {host};
}

// What its worker was at, for people: "timing of all_reduce, 64 KiB float".
std::string work_in(const std::string& state) {
  for (const std::string& line : split(state, '\n'))
    if (const auto parts = split(line, '\t'); parts.size() == 4 && parts[0] == "R") {
      const size_t colon = parts[3].find(": ");
      return colon == std::string::npos ? parts[3] : parts[3].substr(colon + 2);
    }
  return "";
}

void end_files(const Slate& slate, const std::vector<std::string>& lines) {
  Ending ending;
  ending.trouble.lines = lines;
  ending.exit_status = kStatus;
  std::fputs(trouble_text(lines).c_str(), stdout);
  std::fflush(stdout);
  const std::string table = slate.read(Slate::table), document = slate.read(Slate::document);
  if (!table.empty() && !end_table(table, lines)) say(table + ": cannot be ended");
  if (!document.empty() && !end_document(document, ending)) say(document + ": cannot be ended");
}

void tell_as_rank_0(World& world, const Slate& slate, const Dead& dead, const std::string& state) {
  const auto states = gather_states(world, state);
  const auto lines = summarise_states(states, dead.per_task, hosts_of(world));
  for (const std::string& line : lines) say(line);
  end_files(slate, lines);
  release_others(world);
  if (std::find(states.begin(), states.end(), std::nullopt) != states.end()) world.abort(kStatus, "");
}

void tell_rank_0(World& world, const Slate& slate, const std::string& state, const std::string& cause) {
  if (!world.put(kStateKey, state)) world.commit();
  const std::string done = slate.read(Slate::done);
  if (done.empty()) {
    say(cause);
    std::this_thread::sleep_for(std::chrono::duration<double>(kUnknownReport));
    return;
  }
  if (!wait_for_release(world, done)) say(cause);
}

// Puts `text` after the last whole line.
bool end_lines(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  struct stat file;
  if (fd < 0) return false;
  Sink sink(fd, path);
  if (fstat(fd, &file) != 0) return false;
  off_t end = file.st_size;
  for (char last = 0; end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n';) --end;
  sink.write_at(end, text);
  return !sink.broken();
}

// Until a task has put the key, or its server has answered nothing for a while.
void wait_for_word(World& world, int task, const std::string& key, Deadline deadline) {
  for (auto heard_of = Clock::now(); seconds_since(heard_of) < kMostSilence && !passed(deadline);) {
    const auto began = Clock::now();
    const auto text = world.get(task, key, Clock::now());
    if (text && *text) return;
    if (seconds_since(began) < PairsExchange::kSlowAnswer) heard_of = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(kKeeperPause));
  }
}

// The others go on without this task: it stays until rank 0 needs nobody any more, and in rank 0's place until they are
// done, here and on the other nodes. They wait for its word, for a node whose tasks have ended answers nobody.
void stay(World& world, const Slate& slate) {
  const std::string done = slate.read(Slate::done), farewell = slate.read(Slate::farewell);
  if (world.place().rank != 0) return wait_for_word(world, 0, done, Deadline::max());
  const Deadline deadline = in_seconds(kMostFarewell);
  for (int task = 1; task < world.place().size; ++task) {
    const Seat seat = world.seat_of(task);
    if (seat.local_rank == 0 || seat.node == world.place().node) wait_for_word(world, task, farewell, deadline);
  }
  if (!world.put(done, "1")) world.commit();
  std::this_thread::sleep_for(std::chrono::duration<double>(2 * kKeeperPause));
}

void tell_who_waits(World& world, const Slate& slate, const std::string& cause) {
  for (const std::string& key : split(slate.read(Slate::owed), '\n'))
    if (!key.empty()) world.put(key, kLostMark + cause);
  world.commit();
  say(cause);
  const std::string journal = slate.read(Slate::journal);
  if (!journal.empty() && !end_journal(journal, cause)) say(journal + ": cannot be ended");
  stay(world, slate);
}

}  // namespace

std::string state_of_lost_task(const std::string& state, const std::string& cause) {
  std::string result;
  for (const std::string& line : split(state, '\n'))
    if (const auto parts = split(line, '\t'); parts.size() == 4 && parts[0] == "R")
      result += print("R\t%s\tsupervisor gone\t%s\n", parts[1].c_str(), parts[3].c_str());
  return result + "C\t0\t" + cause + "\n";
}

bool end_table(const std::string& path, const std::vector<std::string>& lines) {
  return end_lines(path, trouble_text(lines));
}

bool end_journal(const std::string& path, const std::string& trouble) {
  const nlohmann::ordered_json end = {
      {"kind", "end"}, {"complete", false}, {"trouble", trouble}, {"exit_status", kStatus}};
  return end_lines(path, dump(end) + "\n");
}

std::optional<std::string> cause_of_loss(const std::string& text) {
  if (!text.starts_with(kLostMark)) return std::nullopt;
  return text.substr(sizeof kLostMark - 1);
}

int tell_in_its_place(const Variables& environment, const Slate& slate, const std::string& trouble, double timeout) {
  const Dead dead = who(environment, slate);
  const std::string state = slate.read(Slate::state), work = work_in(state);
  const std::string cause = dead.name + (dead.per_task > 1 ? ": their supervisor " : ": its supervisor ") + trouble +
                            (work.empty() ? "" : "; at work on " + work);
  // PMIx 4's store in shared memory has room for one client a task: a second one takes messages instead.
  setenv("PMIX_MCA_gds", "hash", 1);
  const auto opened = environment.count("PMIX_RANK") ? open_pmix_world(environment, in_seconds(timeout))
                                                     : Result<std::unique_ptr<World>>(open_single_world());
  if (!opened) {
    say(cause);
    say(opened.error().text());
    return kStatus;
  }
  World& world = **opened;
  for (const std::string& key : split(slate.read(Slate::alarm), '\n'))
    if (!key.empty()) world.put(key, kLostMark + cause);
  world.commit();
  const std::string lost = state_of_lost_task(state, cause);
  if (!slate.read(Slate::owed).empty())
    tell_who_waits(world, slate, cause);
  else if (world.place().rank == 0)
    tell_as_rank_0(world, slate, dead, lost);
  else
    tell_rank_0(world, slate, lost, cause);
  // The end of this process closes the dead client's connection, on which Slurm kills what is left of the step.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return kStatus;
}

}  // namespace nccltune::bench
