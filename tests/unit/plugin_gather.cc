// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "machines/machine.h"
#include "node/wire.h"
#include "plugin/gather.h"
#include "unit/temporary.h"

namespace nccltune::testing {
namespace {

using namespace std::chrono_literals;

FactsRequest request_of(const std::string& machine) { return {machine_folder(machine), {}, "n1"}; }

TEST(Gather, GivesWhatIsReadHere) {
  for (const std::string& name : machine_names()) {
    const FactsRequest request = request_of(name);
    const Result<Facts> here = read_facts(request), gathered = gather_facts(request, 60s);
    ASSERT_TRUE(here.ok() && gathered.ok()) << name;
    EXPECT_EQ(to_bytes(gathered->node), to_bytes(here->node)) << name;
    EXPECT_EQ(gathered->node_address, here->node_address);
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no reader is left
}

TEST(Gather, ADeadlineThatPassed) {
  const Result<Facts> facts = gather_facts(request_of("azure-ndv4"), 0ms);
  ASSERT_FALSE(facts.ok());
  EXPECT_THAT(facts.error().text(),
              ::testing::EndsWith(": not read within 0 ms: a driver or a file system hangs; nothing is tuned"));
}

TEST(Gather, AnErrorOfTheReaderIsWhole) {
  const FactsRequest request{"/nonexistent/machine", {}, ""};
  const Result<Facts> here = read_facts(request), gathered = gather_facts(request);
  ASSERT_FALSE(here.ok() || gathered.ok());
  EXPECT_EQ(gathered.error().text(), here.error().text());
}

// A reader that lives on must hold no socket of slurmstepd's: srun would wait for the end of the stream.
TEST(Gather, TheReaderHoldsNoFileOfItsParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(gather_facts(request_of("azure-ndv4"), 0ms).ok());
  close(ends[1]);
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

// Interfaces whose state is 1 MiB each, all of it one file.
void lay_out_large_interfaces(const std::filesystem::path& root, int count) {
  namespace fs = std::filesystem;
  const fs::path all = root / "sys/class/net", state = root / "state";
  fs::create_directories(all);
  write_file(state, std::string(1 << 20, 'x'));
  for (int i = 0; i < count; ++i) {
    const fs::path interface = all / ("eth" + std::to_string(i));
    fs::create_directories(interface);
    fs::create_hard_link(state, interface / "operstate");
  }
}

// qemu-user takes every limit on memory and sets none.
bool memory_has_limits() {
  rlimit now{}, then{};
  if (getrlimit(RLIMIT_DATA, &now) != 0) return false;
  const rlimit lower{std::min<rlim_t>(now.rlim_max, 1UL << 40), now.rlim_max};
  if (setrlimit(RLIMIT_DATA, &lower) != 0) return false;
  getrlimit(RLIMIT_DATA, &then);
  setrlimit(RLIMIT_DATA, &now);
  return then.rlim_cur == lower.rlim_cur;
}

TEST(Gather, AReaderThatTakesMemoryWithoutEndIsStopped) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process when memory ends";
#endif
  if (!memory_has_limits()) GTEST_SKIP() << "no limit on memory here, as under qemu-user";
  const TemporaryFolder folder;
  lay_out_large_interfaces(folder.path(), 100);
  const Result<Facts> facts = gather_facts({folder.path(), {}, ""}, 60s, 16 << 20);
  ASSERT_FALSE(facts.ok());
  EXPECT_THAT(facts.error().object, ::testing::StartsWith((folder.path() / "sys/class/net/eth").string()));
  EXPECT_EQ(facts.error().what, "reading it takes more memory than 16 MiB");
}

TEST(Gather, MoreThanAnyNodeHasIsNotTakenForAHang) {
  const TemporaryFolder folder;
  lay_out_large_interfaces(folder.path(), 20);
  const Result<Facts> facts = gather_facts({folder.path(), {}, ""}, 60s, 1 << 30);
  ASSERT_FALSE(facts.ok());
  EXPECT_EQ(facts.error().text(), "this node's facts: larger than 16 MiB; nothing is tuned");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Gather, OpensNothingForGood) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = count();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(gather_facts(request_of("dgx-spark-gb10"), i % 2 ? 0ms : 60s).ok(), i % 2 == 0);
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace nccltune::testing
