// SPDX-License-Identifier: Apache-2.0
// The small parts of the plugin: guard, fault, mark, pin, address, and what it asks of SPANK.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "fake/spank.h"
#include "plugin/address.h"
#include "plugin/ask.h"
#include "plugin/fault.h"
#include "plugin/guard.h"
#include "plugin/mark.h"
#include "plugin/pin.h"

namespace nccltune {
namespace {

// A folder of the test's own.
class Folder {
 public:
  Folder() { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~Folder() { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "nccl-tune-test.XXXXXX").string();
};

TEST(Guard, GivesZeroOrFailAndNothingElse) {
  FirstFault fault;
  EXPECT_EQ(guard("hook", fault, [] { return 0; }), 0);
  EXPECT_EQ(guard("hook", fault, [] { return -3; }), -1);
  EXPECT_EQ(guard("hook", fault, [] { return 3001; }),
            0);  // ESPANK_*: Slurm before 25.05 would skip the plugins behind
  EXPECT_FALSE(fault.kept());
}

TEST(Guard, KeepsTheFirstException) {
  FirstFault fault;
  EXPECT_EQ(guard("one", fault, []() -> int { throw std::runtime_error("first"); }), 0);
  EXPECT_EQ(guard("two", fault, []() -> int { throw std::bad_alloc(); }), 0);
  EXPECT_STREQ(fault.text(), "one: first");
}

TEST(Guard, TakesWhatIsNoException) {
  FirstFault fault;
  EXPECT_EQ(guard("hook", fault, []() -> int { throw 7; }), 0);
  EXPECT_STREQ(fault.text(), "hook: an exception of unknown type");
}

TEST(Fault, IsOneBoundedLine) {
  FirstFault fault;
  fault.keep(("a\nb\x1b" + std::string(4000, 'c')).c_str());
  const std::string text = fault.text();
  EXPECT_EQ(text.substr(0, 4), "a?b?");
  EXPECT_EQ(text.size(), 511u);
}

TEST(Mark, NamesRoundTrip) {
  const std::set<std::string> names{"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA"};
  EXPECT_EQ(mark_of(names), "NCCL_IB_HCA,NCCL_SOCKET_IFNAME");
  EXPECT_EQ(marked_names({{"NCCLTUNE_SET", mark_of(names)}}), names);
  EXPECT_TRUE(marked_names({}).empty());
}

TEST(Mark, PassesOverWhatIsNoName) {
  EXPECT_EQ(marked_names({{"NCCLTUNE_SET", ",,A B,1X,=,NCCL_IB_HCA,a=b," + std::string(300, 'x') + ",_y"}}),
            (std::set<std::string>{"NCCL_IB_HCA", "_y"}));
}

TEST(Mark, WhatATaskNeedsIsNeverOurs) {
  EXPECT_EQ(marked_names({{"NCCLTUNE_SET", "PATH,HOME,SLURM_PROCID,SLURMD_NODENAME,PMIX_RANK,NCCLTUNE_SET,PATHS"}}),
            std::set<std::string>{"PATHS"});
}

TEST(Mark, IsBounded) {
  std::string mark;
  for (int i = 0; i < 5000; ++i) mark += "N" + std::to_string(i) + ",";
  EXPECT_EQ(marked_names({{"NCCLTUNE_SET", mark}}).size(), 1024u);
}

TEST(Mark, MarkedVariablesAreNotTheUsers) {
  const Environment env{{"NCCLTUNE_SET", "NCCL_IB_HCA"}, {"NCCL_IB_HCA", "=mlx5_0:1"}, {"NCCL_DEBUG", "INFO"}};
  EXPECT_EQ(without_marked(env), (Environment{{"NCCLTUNE_SET", "NCCL_IB_HCA"}, {"NCCL_DEBUG", "INFO"}}));
}

// In a process of its own: a mask cannot be widened again by everyone. True when `body` is.
template <class Body>
bool holds_in_child(Body&& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body() ? 0 : 1);
  int status = 1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Pin, TheMaskIsTheKernels) {
  const auto mask = current_mask();
  ASSERT_TRUE(mask);
  EXPECT_EQ(mask->count(), [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    return CPU_COUNT(&set);
  }());
}

TEST(Pin, SetsTheMask) {
  const auto before = current_mask();
  ASSERT_TRUE(before);
  CpuSet last;
  last.add(before->ids().back());
  EXPECT_TRUE(holds_in_child([&] { return !set_mask(last) && current_mask() == last; }));
}

TEST(Pin, TellsWhatTheKernelSays) {
  CpuSet far;
  far.add(CpuSet::kMaxId);
  EXPECT_TRUE(holds_in_child([&] {
    const auto error = set_mask(far);
    return error && error->text() == "CPU mask: cannot pin to 65535: Invalid argument";
  }));
  EXPECT_EQ(set_mask(CpuSet())->text(), "CPU mask: the plan pins to no CPU");
}

TEST(Pin, PrefersAMemoryNodeOnce) {
  EXPECT_TRUE(holds_in_child([] {
    const auto first = prefer_memory_of(0);
    if (!first) return false;
    if (*first == Preference::unavailable) return true;
    const auto second = prefer_memory_of(0);
    return *first == Preference::set && second && *second == Preference::already_chosen;
  }));
}

TEST(Pin, AMemoryNodeThatIsNotThereIsNoFault) {
  EXPECT_TRUE(holds_in_child([] {
    const auto preference = prefer_memory_of(1000);
    return preference && (*preference == Preference::not_allowed || *preference == Preference::unavailable);
  }));
  EXPECT_FALSE(prefer_memory_of(-1).ok());
  EXPECT_FALSE(prefer_memory_of(1 << 20).ok());
}

std::string address_in(const std::string& hosts, const std::string& name) {
  Folder folder;
  folder.write("/etc/hosts", hosts);
  const Result<Root> root = Root::open(folder.path());
  EXPECT_TRUE(root.ok());
  return root ? address_of(name, *root) : "";
}

TEST(Address, FromHosts) {
  const std::string hosts =
      "127.0.0.1 localhost\n127.0.1.1\tn1\n# 10.0.0.9 n1\n10.0.0.7   n1.cluster n1 # the node\r\n10.0.0.8 n10\nfd00::8 "
      "n10 n6\n";
  EXPECT_EQ(address_in(hosts, "n1"), "10.0.0.7");
  EXPECT_EQ(address_in(hosts, "n10"), "10.0.0.8");
  EXPECT_EQ(address_in(hosts, "n6"), "fd00::8");
  EXPECT_EQ(address_in(hosts, "n"), "");
  EXPECT_EQ(address_in(hosts, "localhost"), "");
  EXPECT_EQ(address_in(hosts, ""), "");
  EXPECT_EQ(address_in("", "10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(address_in(std::string("x\n10.0.0.1\n\0n1", 14), "n1"), "");
}

TEST(NodeName, IsSlurmsNotTheHosts) {
  EXPECT_EQ(node_name({{"SLURMD_NODENAME", "batch-host"}, {"SLURM_TOPOLOGY_ADDR", "n1"}}), "n1");
  EXPECT_EQ(node_name({{"SLURMD_NODENAME", "n1"}}), "n1");
  EXPECT_EQ(node_name({{"SLURM_TOPOLOGY_ADDR", "n2"}, {"SLURM_TOPOLOGY_ADDR_PATTERN", "node"}}), "n2");
  EXPECT_EQ(node_name({{"SLURM_TOPOLOGY_ADDR", "s0.s1.n2.gpu"}, {"SLURM_TOPOLOGY_ADDR_PATTERN", "switch.switch.node"}}),
            "n2.gpu");
  EXPECT_FALSE(node_name({}).empty());
  EXPECT_EQ(node_name({}).find('.'), std::string::npos);
}

class Ask : public testing::Test {
 protected:
  void SetUp() override { fake::host() = fake::Host{}; }
  spank_t spank() { return reinterpret_cast<spank_t>(&fake::host()); }
};

TEST_F(Ask, OnlyStepsOfSrunAreOrdinary) {
  for (uint32_t id : {0u, 1u, 0xfffffff9u}) {
    fake::host().step_id = id;
    EXPECT_TRUE(is_ordinary_step(spank())) << id;
  }
  for (uint32_t id : {0xfffffffau, 0xfffffffbu, 0xfffffffcu, 0xfffffffdu}) {
    fake::host().step_id = id;
    EXPECT_FALSE(is_ordinary_step(spank())) << id;
  }
  fake::host().step_id = 0;
  fake::host().fails = "spank_get_item";
  EXPECT_FALSE(is_ordinary_step(spank()));
}

TEST_F(Ask, TheEnvironmentIsReadAsGetenvWould) {
  fake::host().odd_entries = {"", "=x", "NO_EQUALS", "A=1", "A=2", "B=", "C=a=b", "D=x\ny"};
  EXPECT_EQ(job_environment(spank()), (Environment{{"A", "1"}, {"B", ""}, {"C", "a=b"}, {"D", "x\ny"}}));
  fake::host().env_is_null = true;
  EXPECT_TRUE(job_environment(spank()).empty());
}

TEST_F(Ask, TheEnvironmentIsBounded) {
  for (int i = 0; i < 70000; ++i) fake::host().odd_entries.push_back("V" + std::to_string(i) + "=");
  EXPECT_EQ(job_environment(spank()).size(), 65536u);
}

TEST_F(Ask, PyxisIsSeen) {
  EXPECT_FALSE(container_request(spank()).image);
  for (const char* name : {"_SLURM_SPANK_OPTION_pyxis_container_image", "_SLURM_SPANK_OPTION_pyxis_container_name",
                           "PYXIS_CONTAINER_IMAGE", "PYXIS_CONTAINER_NAME"}) {
    fake::host().env = {{name, "x"}};
    EXPECT_TRUE(container_request(spank()).image) << name;
    fake::host().env = {{name, std::string(100000, 'x')}};
    EXPECT_TRUE(container_request(spank()).image) << name;
    fake::host().env = {{name, ""}};
    EXPECT_FALSE(container_request(spank()).image) << name;
  }
}

TEST_F(Ask, APrivateNetworkNeedsAContainer) {
  fake::host().env = {{"_SLURM_SPANK_OPTION_pyxis_container_unshare", "ipc,net"}};
  EXPECT_FALSE(container_request(spank()).private_network);
  fake::host().env["PYXIS_CONTAINER_IMAGE"] = "ubuntu";
  EXPECT_TRUE(container_request(spank()).private_network);
  fake::host().env["_SLURM_SPANK_OPTION_pyxis_container_unshare"] = "ipc,network0";
  EXPECT_FALSE(container_request(spank()).private_network);
}

TEST_F(Ask, AStepCarriesWhatThePolicyNeeds) {
  fake::host().local_tasks = 3;
  Options options;
  options.action = Options::Action::env;
  options.profile = "p";
  options.torch = true;
  Arguments arguments;
  arguments.gpu_order = GpuOrder::minor;
  ContainerRequest container;
  container.image = true;
  const Environment env{
      {"SLURM_STEP_GPUS", "0,1"}, {"SLURMD_NODENAME", "n1"}, {"NCCLTUNE_SET", "A"}, {"A", "1"}, {"B", "2"}};
  const Step step = ask_step(spank(), env, options, arguments, container);
  EXPECT_EQ(step.node_name, "n1");
  EXPECT_EQ(step.step_gpus, "0,1");
  EXPECT_EQ(step.local_tasks, 3);
  EXPECT_EQ(step.gpu_order, GpuOrder::minor);
  EXPECT_EQ(step.profile, "p");
  EXPECT_TRUE(step.container && step.torch);
  EXPECT_FALSE(step.bind || step.sharp || step.private_network || step.outside_slurm);
  EXPECT_EQ(step.env.count("A"), 0u);
  EXPECT_EQ(step.env.at("B"), "2");
}

TEST_F(Ask, ShowPlansThePinToo) {
  Options options;
  options.action = Options::Action::show;
  EXPECT_TRUE(ask_step(spank(), {}, options, {}, {}).bind);
}

TEST_F(Ask, OpenableMinors) {
  Folder folder;
  Node node;
  for (int minor : {0, 1, 2}) {
    Gpu gpu;
    gpu.minor = minor;
    node.gpus.push_back(gpu);
  }
  node.gpus.push_back(Gpu{});  // without the driver
  EXPECT_EQ(openable_minors(node, folder.path()), std::nullopt);
  EXPECT_EQ(openable_minors(node, folder.path() + "/none.json"), std::nullopt);
  folder.write("/dev/nvidia1", "");
  EXPECT_EQ(openable_minors(node, folder.path()), std::set<int>{1});
  EXPECT_EQ(openable_minors(Node{}, folder.path()), std::nullopt);
}

}  // namespace
}  // namespace nccltune
