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

}  // namespace

std::string state_of_lost_task(const std::string& state, const std::string& cause) {
  std::string result;
  for (const std::string& line : split(state, '\n'))
    if (const auto parts = split(line, '\t'); parts.size() == 4 && parts[0] == "R")
      result += print("R\t%s\tsupervisor gone\t%s\n", parts[1].c_str(), parts[3].c_str());
  return result + "C\t0\t" + cause + "\n";
}

bool end_table(const std::string& path, const std::vector<std::string>& lines) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  struct stat file;
  if (fd < 0) return false;
  Sink sink(fd, path);
  if (fstat(fd, &file) != 0) return false;
  char last[4096];  // longer than any row
  const off_t from = std::max<off_t>(0, file.st_size - static_cast<off_t>(sizeof last));
  const ssize_t n = pread(fd, last, sizeof last, from);
  if (n < 0) return false;
  const size_t end = std::string_view(last, n).rfind('\n');
  sink.write_at(from + (end == std::string_view::npos ? n : end + 1), trouble_text(lines));
  return !sink.broken();
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
  if (world.place().rank == 0)
    tell_as_rank_0(world, slate, dead, lost);
  else
    tell_rank_0(world, slate, lost, cause);
  // The end of this process closes the dead client's connection, on which Slurm kills what is left of the step.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return kStatus;
}

}  // namespace nccltune::bench
