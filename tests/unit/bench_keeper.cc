// SPDX-License-Identifier: Apache-2.0
// What outlives a supervisor: its slate, its keeper, the ends of its files.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/alarm.h"
#include "bench/keeper.h"
#include "bench/obituary.h"
#include "bench/report_json.h"
#include "bench/trouble.h"
#include "unit/temporary.h"

namespace nccltune::bench {
namespace {

std::string put(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  write_file(folder.path() / name, text);
  return folder.path() / name;
}

int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// `supervise` is what the supervisor does; gives what the launcher sees.
template <class Supervise>
int status_of_kept(Supervise supervise) {
  const pid_t task = fork();
  if (task == 0) {
    const Kept kept = begin_keeping({}, 2);
    supervise(kept);
    _exit(0);
  }
  return status_of(task);
}

TEST(Slate, IsReadByWhoSharesIt) {
  Slate& slate = Slate::make();
  EXPECT_EQ(slate.read(Slate::state), "");
  const pid_t child = fork();
  if (child == 0) {
    slate.write(Slate::state, "first");
    slate.write(Slate::state, "second");
    slate.write(Slate::table, std::string(2 * Slate::kPageBytes, 'x'));
    slate.beat();
    raise(SIGKILL);
  }
  EXPECT_EQ(status_of(child), 1000 + SIGKILL);
  EXPECT_EQ(slate.read(Slate::state), "second");
  EXPECT_EQ(slate.read(Slate::table).size(), Slate::kPageBytes);
  EXPECT_EQ(slate.beats(), 1u);
}

TEST(Keeper, PassesTheExitStatusOn) {
  EXPECT_EQ(status_of_kept([](const Kept&) { _exit(4); }), 4);
}

TEST(Keeper, TellsOfASupervisorThatIsKilled) {
  testing::internal::CaptureStderr();
  const int status = status_of_kept([](const Kept& kept) {
    kept.slate.write(Slate::place, "3\t1\tnode7");
    kept.slate.write(Slate::state, "R\t3\ttiming\tnode7: timing of all_reduce, 1 KiB float\n");
    raise(SIGKILL);
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 5);
  EXPECT_NE(said.find("rank 3 at node7: its supervisor was killed by SIGKILL"), std::string::npos) << said;
  EXPECT_NE(said.find("timing of all_reduce, 1 KiB float"), std::string::npos) << said;
}

TEST(Keeper, EndsASupervisorThatIsStopped) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(status_of_kept([](const Kept&) { raise(SIGSTOP); }), 5);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("its supervisor was stopped (SIGSTOP)"), std::string::npos);
}

TEST(Keeper, KeepsTheOtherEndOfASocketOpen) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t task = fork();
  if (task == 0) {
    close(ends[0]);
    const Kept kept = begin_keeping({}, 2);
    hand_over(kept, {ends[1]});
    close(ends[1]);
    pause();
  }
  close(ends[1]);
  usleep(500000);
  char byte;
  EXPECT_EQ(recv(ends[0], &byte, 1, MSG_DONTWAIT), -1) << "the keeper has let go of the socket";
  kill(task, SIGTERM);  // forwarded to the supervisor
  EXPECT_EQ(status_of(task), 5);
  EXPECT_EQ(recv(ends[0], &byte, 1, MSG_DONTWAIT), 0);
  close(ends[0]);
}

TEST(EndTable, LeavesWholeRowsAndTheError) {
  const TemporaryFolder folder;
  const std::string path = put(folder, "table", "# head\n 1 2 3\n 4 5");
  EXPECT_TRUE(end_table(path, {"rank 3 is gone", "rank 1: timing"}));
  EXPECT_EQ(read_file(path), "# head\n 1 2 3\n#\n# error: rank 3 is gone\n# rank 1: timing\n");
  EXPECT_FALSE(end_table(path + ".not-there", {"x"}));
}

TEST(EndJournal, IsALineOfItsOwn) {
  const TemporaryFolder folder;
  const std::string end =
      "{\"kind\":\"end\",\"complete\":false,\"trouble\":\"rank 0 is \\\"gone\\\"\",\"exit_status\":5}\n";
  for (const char* half : {"", "{\"kind\":\"pai"}) {
    const std::string path = put(folder, "journal", std::string("{\"kind\":\"start\"}\n") + half);
    EXPECT_TRUE(end_journal(path, "rank 0 is \"gone\""));
    EXPECT_EQ(read_file(path), "{\"kind\":\"start\"}\n" + end);
  }
  EXPECT_TRUE(end_journal(put(folder, "journal", ""), "rank 0 is \"gone\""));
  EXPECT_FALSE(end_journal(folder.path() / "not-there", "x"));
}

// The keeper's word in the place of what a task owed.
TEST(CauseOfLoss, IsNoWordOfTheTaskItself) {
  EXPECT_EQ(cause_of_loss(std::string(kLostMark) + "rank 3 at n2: gone"), "rank 3 at n2: gone");
  EXPECT_EQ(cause_of_loss("0\t1.5\t0\t1\t\n"), std::nullopt);
  EXPECT_EQ(cause_of_loss(""), std::nullopt);
}

TEST(EndDocument, StandsAfterTheLastWholeRow) {
  const TemporaryFolder folder;
  Ending ending;
  ending.exit_status = 5;
  ending.trouble.lines = {"rank 3 is gone"};
  const std::string head = "{\"format\":1,\"rows\":[", wanted = "\"trouble\":[\"rank 3 is gone\"]}\n";
  for (const char* rows : {"", "\n{\"bytes\":1}", "\n{\"bytes\":1},\n{\"bytes\":2}", "\n{\"bytes\":1},\n{\"byt",
                           "\n{\"bytes\":1}\n],\"complete\":false,\"ended\":null}\n"}) {
    const std::string path = put(folder, "document", head + rows);
    EXPECT_TRUE(end_document(path, ending));
    const std::string text = read_file(path);
    EXPECT_TRUE(text.ends_with(wanted)) << text;
    const bool first = std::string(rows).find("\"bytes\":1") != std::string::npos;
    EXPECT_EQ(text.find("{\"bytes\":1}\n") != std::string::npos || text.find("{\"bytes\":1},") != std::string::npos,
              first)
        << text;
    EXPECT_EQ(text.find("{\"byt\n"), std::string::npos) << text;
  }
  EXPECT_FALSE(end_document(put(folder, "other", "not ours\n"), ending));
}

TEST(Trouble, NamesALostTaskFirst) {
  const std::string cause = "rank 1 at n2: its supervisor was killed by SIGSEGV";
  const auto lines =
      summarise_states({"R\t0\ttiming\tn1: timing for 3 s\n", state_of_lost_task("R\t1\ttiming\tn2: timing\n", cause),
                        "R\t2\ttiming\tn3: timing for 3 s\n", "R\t3\ttiming\tn4: timing for 3 s\n"},
                       1);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.front(), cause);
}

TEST(Trouble, NamesTheHostOfATaskThatDoesNotAnswer) {
  const auto lines = summarise_states({"R\t0\ttiming\tn1: timing\n", std::nullopt, "R\t2\ttiming\tn3: timing\n"}, 1,
                                      {"n1", "n2", "n3"});
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(lines.front().starts_with("rank 1: n2: no answer")) << lines.front();
}

TEST(Trouble, WhoHearsNobodyIsCutOffItself) {
  const auto lines = summarise_states({"R\t0\ttiming\tn1: timing\n", std::nullopt, std::nullopt, std::nullopt}, 1,
                                      {"n1", "n2", "n3", "n4"});
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(lines.front().starts_with("rank 0 at n1: its node is cut off")) << lines.front();
}

}  // namespace
}  // namespace nccltune::bench
