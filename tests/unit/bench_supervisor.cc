// SPDX-License-Identifier: Apache-2.0
// The supervisor against a worker that dies, hangs or talks nonsense (tests/fake/bench_worker.py), and the parts of it
// that need no process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/alarm.h"
#include "bench/data_path.h"
#include "bench/digest.h"
#include "bench/expected.h"
#include "bench/frame.h"
#include "bench/record.h"
#include "bench/session.h"
#include "bench/text.h"
#include "unit/temporary.h"

namespace nccltune::bench {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Finished {
  int status = -1;
  std::string out, err;
  double seconds = 0;
};

class Supervisor : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path source = fs::absolute(fs::path(__FILE__)).parent_path() / "../fake/bench_worker.py";
    fs::create_symlink(source, folder_ / "nccl-tune-worker-host");
  }

  Finished run(const std::string& manner, std::vector<const char*> arguments, int kill_with = 0) {
    const auto began = Clock::now();
    const pid_t pid = fork();
    if (pid == 0) {
      for (const char* name : {"SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID", "PMIX_RANK", "PMI_SIZE"})
        unsetenv(name);
      setenv("NCCLTUNE_WORKER_DIR", folder_.c_str(), 1);
      setenv("FAKE_WORKER", manner.c_str(), 1);
      if (chdir(folder_.c_str()) != 0) _exit(99);
      dup2(open("out", O_CREAT | O_WRONLY, 0600), 1);
      dup2(open("err", O_CREAT | O_WRONLY, 0600), 2);
      arguments.insert(arguments.begin(), {"bench", "--worker", "host", "-b", "1K", "-e", "16K", "-f", "2"});
      const auto parsed = parse_options(static_cast<int>(arguments.size()), arguments.data());
      _exit(parsed.options ? run_bench(*parsed.options) : 98);
    }
    if (kill_with) {
      // Not before it has finished a row: how long that takes is the machine's affair.
      for (int i = 0; i < 1000 && !contains(read_file(folder_ / "out"), "\n        2048 "); ++i) usleep(20000);
      kill(pid, kill_with);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    Finished finished;
    finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    finished.out = read_file(folder_ / "out");
    finished.err = read_file(folder_ / "err");
    finished.seconds = seconds_since(began);
    return finished;
  }
  const TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
};

TEST_F(Supervisor, GoodRun) {
  const auto done = run("good", {"--json", "r.json", "--csv", "r.csv"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(contains(done.out, "# Out of bounds values : 0 OK\n")) << done.out;
  EXPECT_TRUE(
      contains(done.out, "       16384          4096     float     sum      -1    11.64    1.41    0.00       0"))
      << done.out;
  const auto json = nlohmann::json::parse(read_file(folder_ / "r.json"));
  EXPECT_EQ(json["rows"].size(), 5u);
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["rows"][0]["out_of_place"]["iterations"]["count"], 8);
}

TEST_F(Supervisor, WrongDataIsStatusFour) {
  const auto done = run("wrong", {});
  EXPECT_EQ(done.status, 4);
  EXPECT_TRUE(contains(done.out, "# Out of bounds values : 1 FAILED\n")) << done.out;
  EXPECT_TRUE(contains(done.out, "element 77, expected 1.5, found 2.5")) << done.out;
}

// Every way to break: status 5 in bounded time, the rank and the phase named, finished rows kept.
struct Break {
  const char* manner;
  const char* says;
};
class Breaks : public Supervisor, public testing::WithParamInterface<Break> {};

TEST_P(Breaks, AreNamedAndLoseNoRow) {
  const auto done = run(GetParam().manner, {"--timeout", "1", "--json", "r.json"});
  EXPECT_EQ(done.status, 5) << done.err;
  EXPECT_LT(done.seconds, 15);
  EXPECT_TRUE(contains(done.err, GetParam().says)) << done.err;
  EXPECT_TRUE(contains(done.err, "rank 0")) << done.err;
  EXPECT_FALSE(contains(done.out, "Out of bounds values")) << done.out;
  const bool in_run = !contains(GetParam().manner, ":connect");
  EXPECT_EQ(contains(done.out, "\n        2048 "), in_run) << done.out;
  EXPECT_EQ(nlohmann::json::parse(read_file(folder_ / "r.json"))["rows"].size(), in_run ? 2u : 0u);
  EXPECT_TRUE(contains(done.out, "# error: rank 0")) << done.out;
}

INSTANTIATE_TEST_SUITE_P(Bench, Breaks,
                         testing::Values(Break{"crash", "killed by SIGSEGV"}, Break{"killed", "killed by SIGKILL"},
                                         Break{"leave", "exited with status 3"},
                                         Break{"hang", "no progress: timing of all_reduce, 4 KiB"},
                                         Break{"stop", "(stopped)"}, Break{"garbage", "no message"},
                                         Break{"huge", "announced a message of 4294967295 bytes"},
                                         Break{"wrong-turn", "out of turn"}, Break{"fail", "ncclThing: it broke"},
                                         Break{"crash:connect", "killed by SIGSEGV"},
                                         Break{"hang:connect", "no progress"}));

TEST_F(Supervisor, NoDeviceIsStatusThree) {
  const auto done = run("no-device:setup", {});
  EXPECT_EQ(done.status, 3);
  EXPECT_TRUE(contains(done.err, "ncclThing: it broke; mend it")) << done.err;
}

TEST_F(Supervisor, MissingWorkerIsStatusThree) {
  fs::remove(folder_ / "nccl-tune-worker-host");
  const auto done = run("good", {});
  EXPECT_EQ(done.status, 3);
  EXPECT_TRUE(contains(done.err, "nccl-tune-worker-host: not found")) << done.err;
}

TEST_F(Supervisor, EndlessRunEndsWellBySignal) {
  const auto done = run("good", {"-N", "0"}, SIGTERM);
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(contains(done.out, "# Avg bus bandwidth"));
}

TEST_F(Supervisor, SignalInAFixedRunIsABreak) {
  const auto done = run("hang", {}, SIGTERM);
  EXPECT_EQ(done.status, 5);
  EXPECT_TRUE(contains(done.err, "ended by SIGTERM")) << done.err;
}

TEST_F(Supervisor, MinimumOfBusbw) {
  EXPECT_EQ(run("good", {"-g", "2", "--min-busbw", "0.1"}).status, 0);
  const auto done = run("good", {"-g", "2", "--min-busbw", "1000"});
  EXPECT_EQ(done.status, 1);
  EXPECT_TRUE(contains(done.out, "(--min-busbw)"));
}

TEST_F(Supervisor, IntervalIsNarrowed) {
  const auto done = run("good", {"--ci", "0.001%", "--ci-time", "10ms", "--json", "r.json"});
  EXPECT_EQ(done.status, 0) << done.err;
  const auto json = nlohmann::json::parse(read_file(folder_ / "r.json"));
  EXPECT_GT(json["rows"][0]["iterations"], 100);
}

TEST_F(Supervisor, ReadOnlyFolderLosesNothing) {
  const auto done = run("good", {"--out", "/proc/nowhere/x.out", "--json", "/proc/nowhere/x.json"});
  EXPECT_EQ(done.status, 0);
  EXPECT_TRUE(contains(done.err, "nccl-tune: /proc/nowhere/x.out: cannot write: No such file or directory\n"))
      << done.err;
  EXPECT_TRUE(contains(done.out, "# Avg bus bandwidth"));
}

TEST(BenchWorld, LonelyTaskIsToldHowToStart) {
  const auto fault = lonely_task({{"SLURM_NTASKS", "4"}});
  ASSERT_TRUE(fault);
  EXPECT_TRUE(contains(fault->text(), "srun --mpi=pmix")) << fault->text();
  EXPECT_TRUE(lonely_task({{"OMPI_COMM_WORLD_SIZE", "2"}}));
  EXPECT_FALSE(lonely_task({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "4"}}));  // a step of one in a larger job
  EXPECT_FALSE(lonely_task({}));
}

TEST(BenchAlarm, TreeReachesEveryTask) {
  for (const int size : {1, 2, 17, 18, 1000}) {
    std::vector<int> seen(size, 0);
    for (int rank = 0; rank < size; ++rank)
      for (const int peer : alarm_neighbours(rank, size)) {
        ASSERT_LT(peer, size);
        const auto back = alarm_neighbours(peer, size);
        EXPECT_NE(std::find(back.begin(), back.end(), rank), back.end());
        if (peer < rank) ++seen[rank];
      }
    for (int rank = 1; rank < size; ++rank) EXPECT_EQ(seen[rank], 1) << rank;
  }
}

TEST(BenchFrame, CutsAndRefuses) {
  FrameReader reader;
  const std::string bytes = frame(protocol::Kind::phase, 0, "abc") + frame(protocol::Kind::result, 7, "");
  for (const char c : bytes.substr(0, bytes.size() - 1)) reader.feed({&c, 1});
  auto first = reader.next();
  ASSERT_TRUE(first.ok() && *first);
  EXPECT_EQ((*first)->payload, "abc");
  EXPECT_FALSE(*reader.next());
  reader.feed(bytes.substr(bytes.size() - 1));
  auto second = reader.next();
  ASSERT_TRUE(second.ok() && *second);
  EXPECT_EQ((*second)->sequence, 7u);
  reader.feed("this is no message at all");
  EXPECT_FALSE(reader.next().ok());
}

TaskRecord task_with(const std::string& host, uint64_t hash, const std::string& uuid,
                     const std::string& library = "NCCL 2.28.9") {
  TaskRecord task{"0.1.0", "nccl", 1, 0, {}};
  WorkerRecord worker;
  worker.host = host;
  worker.host_hash = hash;
  worker.uuid = uuid;
  worker.bdf = "0000:3b:00.0";
  worker.library = library;
  worker.id = std::string("\0\1id", 4);
  worker.free_bytes = worker.total_bytes = 80ull << 30;
  task.workers.push_back(worker);
  return task;
}

TEST(BenchRecord, SurvivesTheWire) {
  const TaskRecord task = task_with("n1", 5, "GPU-1");
  const auto back = unpack(pack(task));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->workers[0].uuid, "GPU-1");
  EXPECT_EQ(back->workers[0].id, task.workers[0].id);
  EXPECT_EQ(back->workers[0].free_bytes, 80ull << 30);
  const std::string bytes = pack(task);
  for (size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(unpack(bytes.substr(0, cut))) << cut;
}

TEST(BenchDigest, SurvivesTheWire) {
  std::vector<TaskRecord> tasks = {task_with("n1", 5, "GPU-1"), task_with("n2", 6, "GPU-2")};
  tasks[0].workers[0].types = 0b0111, tasks[1].workers[0].types = 0b1110;
  tasks[1].workers[0].free_bytes = 40ull << 30;
  tasks[0].node = 3, tasks[1].node = 4;
  const std::string bytes = pack(digest_of(tasks, true, true));
  const auto back = unpack_digest(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->library, "NCCL 2.28.9");
  EXPECT_EQ(back->types, 0b0110u);                // what both have
  EXPECT_EQ(back->largest_message, 13ull << 30);  // of the fuller GPU: 40 GiB less 1, three buffers
  EXPECT_THAT(back->ids, testing::ElementsAre(tasks[0].workers[0].id));
  EXPECT_THAT(back->nodes, testing::ElementsAre(3, 4));
  EXPECT_TRUE(digest_of(tasks, true, false).nodes.empty());
  for (size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(unpack_digest(bytes.substr(0, cut))) << cut;
}

TEST(BenchDigest, HasTheIdsOfAllRootsWhereEveryLibraryTakesThem) {
  std::vector<TaskRecord> tasks;
  for (int rank = 0; rank < 600; ++rank) {
    tasks.push_back(task_with("n", static_cast<uint64_t>(rank), print("GPU-%d", rank)));
    tasks.back().workers[0].id = print("id of %d", rank);
    tasks.back().workers[0].library_code = 22300;
  }
  std::vector<std::string> ids;
  for (const int root : root_ranks(600)) ids.push_back(print("id of %d", root));
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(digest_of(tasks, true, false).ids, ids);
  tasks[599].workers[0].library_code = 22203;  // ncclCommInitRankScalable came with 2.23
  EXPECT_THAT(digest_of(tasks, true, false).ids, testing::ElementsAre("id of 0"));
}

TEST(BenchRecord, SharedGpuIsNamedUnlessHostIdsDiffer) {
  const auto lines =
      contradictions({task_with("n1", 5, "GPU-1"), task_with("n1", 5, "GPU-1"), task_with("n1", 5, "GPU-2")});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(contains(lines[0], "n1: ranks 0-1 use the same GPU, GPU-1 (0000:3b:00.0)")) << lines[0];
  EXPECT_TRUE(contradictions({task_with("n1", 5, "GPU-1"), task_with("n1", 6, "GPU-1")}).empty());
}

TEST(BenchRecord, MixedLibrariesAreNamed) {
  const auto lines = contradictions({task_with("n1", 5, "GPU-1"), task_with("n2", 6, "GPU-2", "NCCL 2.27.1")});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "ranks load different libraries (NCCL 2.27.1: rank 1; NCCL 2.28.9: rank 0)");
}

TEST(BenchRecord, RootsAreSpread) {
  EXPECT_EQ(root_ranks(1), std::vector<int>{0});
  EXPECT_EQ(root_ranks(256), std::vector<int>{0});
  EXPECT_EQ(root_ranks(1000), (std::vector<int>{0, 250, 500, 750}));
}

TEST(BenchRecord, OutputNamesDoNotMakeOptionsDiffer) {
  Options a, b;
  a.arguments = {"all_reduce", "-b", "8", "--json", "x"};
  b.arguments = {"all_reduce", "-b", "8", "--json", "y"};
  EXPECT_EQ(hash_options(a), hash_options(b));
  b.arguments[2] = "16";
  EXPECT_NE(hash_options(a), hash_options(b));
}

TEST(BenchExpected, OnlyTheVeryShape) {
  EXPECT_TRUE(names_gpu("H100-SXM", "NVIDIA H100 80GB HBM3"));
  EXPECT_TRUE(names_gpu("GB200 NVL72", "NVIDIA GB200"));
  EXPECT_FALSE(names_gpu("H100", "NVIDIA H200"));
  const fs::path file = fs::path(__FILE__).parent_path() / "../../etc/expected.yaml";
  auto figures = read_expected(file);
  ASSERT_TRUE(figures.ok()) << figures.error().text();
  EXPECT_GT(figures->size(), 150u);
  RunInfo info;
  info.ranks = 8;
  info.nodes = 1;
  info.devices.resize(8);
  for (auto& device : info.devices) device.name = "NVIDIA H200";
  Row row;
  row.bytes = 17179869184;
  row.out.busbw = 475;
  const Verdict eight = compare(*figures, info, {row});
  EXPECT_TRUE(eight.met);
  EXPECT_TRUE(contains(join(eight.lines, "\n"), "ratio ")) << join(eight.lines, "\n");
  info.options.min_ratio = 1.5;
  EXPECT_FALSE(compare(*figures, info, {row}).met);
  info.ranks = 7919;
  info.options.min_ratio.reset();
  EXPECT_TRUE(contains(compare(*figures, info, {row}).lines[0], "no figure is known"));
}

TEST(BenchDataPath, ReadsTheLog) {
  const std::string log =
      "n1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n"
      "n1:1:1 [0] NCCL INFO Using network IB\n"
      "n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
      "n1:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1\n"
      "n1:1:1 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
      "n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
      "n1:1:1 [0] NCCL INFO Connected NVLS tree\n"
      "n1:1:1 [0] NCCL WARN something is off\n"
      "n1:1:1 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n";
  const DataPath path = parse_data_path(log);
  EXPECT_EQ(path.network, "IB");
  EXPECT_EQ(path.devices, (std::vector<std::string>{"mlx5_0:1/IB", "mlx5_1:1/RoCE"}));
  EXPECT_EQ(path.net, 2);
  EXPECT_EQ(path.net_gdr, 1);
  EXPECT_EQ(path.p2p, 1);
  EXPECT_TRUE(path.nvls);
  EXPECT_THAT(path.used_devices, testing::ElementsAre("mlx5_0:1/IB", "mlx5_1:1/RoCE"));
  const std::string lines = join(describe_data_path(path), "\n");
  EXPECT_TRUE(contains(lines, "data path of rank 0: IB, 1 of 2 channels with GPUDirect RDMA")) << lines;
  EXPECT_TRUE(contains(lines, "NCCL warns: something is off")) << lines;
}

TEST(BenchDataPath, TheTellingLinesAreWarningsAndTheLastOfTheOthers) {
  const std::string log =
      "vm:1:1 [0] NCCL INFO Using network Socket\n"
      "vm:1:1 [0] NCCL WARN Cuda failure 101 'invalid device ordinal'\n"
      "vm:1:1 [0] NCCL INFO misc/socket.cc:868 -> 3\n"
      "vm:1:1 [0] NCCL INFO 24 coll channels\n"
      "vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/CUMEM\n"
      "vm:1:1 [0] NCCL INFO group.cc:76 -> 1 [Async thread]\n";
  EXPECT_EQ(telling_lines(log, 2),
            (std::vector<std::string>{"vm:1:1 [0] NCCL WARN Cuda failure 101 'invalid device ordinal'",
                                      "vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/CUMEM"}));
  EXPECT_EQ(telling_lines(log, 1).size(), 1u);
  EXPECT_EQ(telling_lines(log, 9).size(), 4u);
  EXPECT_TRUE(telling_lines("", 3).empty());
}

}  // namespace
}  // namespace nccltune::bench
