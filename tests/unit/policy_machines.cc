// SPDX-License-Identifier: Apache-2.0
// Every recorded machine through the reader and the shipped policy, against what its owner, vendor or maintainer
// states. Each key of `expected` has a check here; a key that has none fails the test, so that no answer is skipped in
// silence.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "machines/machine.h"
#include "node/distance.h"
#include "node/read.h"
#include "policy/facts.h"
#include "policy/plan.h"
#include "unit/policy_shipped.h"

namespace nccltune {
namespace {

using Json = nlohmann::json;
using Names = std::set<std::string>;

Names names_in(const Json& list) {
  Names names;
  for (const Json& name : list) names.insert(name.get<std::string>());
  return names;
}

std::string value_of(const std::vector<EnvSetting>& env, const std::string& name) {
  for (const EnvSetting& setting : env)
    if (setting.name == name) return setting.value;
  return "(unset)";
}

// The devices of "=mlx5_0:1,mlx5_1:1".
Names devices_in(const std::string& list) {
  Names devices;
  if (list == "(unset)") return devices;
  EXPECT_EQ(list.front(), '=') << list;
  for (const std::string_view part : split(std::string_view(list).substr(1), ','))
    devices.emplace(part.substr(0, part.find(':')));
  return devices;
}

class PlannedMachine : public ::testing::TestWithParam<std::string> {
 protected:
  PlannedMachine()
      : record(Json::parse(testing::machine_record(GetParam()))),
        expected(record["expected"]),
        policy(testing::shipped_policy()),
        node(read(policy)) {
    plan = make_plan(node, policy, step_for_each_gpu());
    // The record of this guest kept none of its PCI groups: the file that is laid out holds no device.
    empty_topology_file = expected.contains("nccl_topo_file") && record["topo_file_bridges"].empty();
  }

  Node read(const Policy& with) const {
    ReadOptions options;
    options.probe = with.files();
    options.topology_files = with.topology_files();
    return read_node(testing::machine(GetParam()), options);
  }

  // Outside Slurm, one task a GPU.
  Step step_for_each_gpu() const {
    Step step;
    step.outside_slurm = true;
    step.local_tasks = static_cast<int>(node.gpus.size());
    for (int i = 0; i < step.local_tasks; ++i) {
      Task task;
      task.local_id = i;
      step.tasks.push_back(task);
    }
    return step;
  }

  const TaskPlan* task_of(const std::string& gpu) const {
    for (const TaskPlan& task : plan.tasks)
      if (task.gpus == std::vector<std::string>{gpu}) return &task;
    return nullptr;
  }

  void check_hcas(const Json& want) { EXPECT_EQ(devices_in(value_of(plan.env, "NCCL_IB_HCA")), names_in(want)); }
  void check_excluded(const Json& want);
  void check_gid(const Json& want);
  void check_interface(const Json& want);
  void check_numa(const Json& want);
  void check_cpus(const Json& want);
  void check_near_nic(const Json& want);
  void check_topology_file(const Json& want);
  void check_env(const Json& want);
  void check_near_efa(const Json& want);
  void check_near_netdev(const Json& want);
  void check_slurm_case(const Json& want);
  void check_with_policy(const Json& want);
  void check_no_nvidia(const Json& want);
  void check_rdma_numa(const Json& want);
  void check_efa_devices(const Json& want);
  void check_memory_numa(const Json& want);
  void check_fastrak(const Json& want);
  Names nearest(const std::string& gpu, const std::map<std::string, std::string>& name_to_bdf) const;

  bool empty_topology_file = false;
  Json record, expected;
  Policy policy;
  Node node;
  Plan plan;
};

void PlannedMachine::check_excluded(const Json& want) {
  const Names used = devices_in(value_of(plan.env, "NCCL_IB_HCA"));
  for (const std::string& name : names_in(want)) {
    EXPECT_EQ(used.count(name), 0u) << name;
    const auto row = std::find_if(plan.hcas.begin(), plan.hcas.end(), [&](const auto& h) { return h.name == name; });
    ASSERT_NE(row, plan.hcas.end()) << name;
    EXPECT_FALSE(row->why.empty()) << name;
  }
}

void PlannedMachine::check_gid(const Json& want) {
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_GID_INDEX"), want.is_null() ? "(unset)" : std::to_string(want.get<int>()));
}

void PlannedMachine::check_interface(const Json& want) {
  const std::string have = value_of(plan.env, "NCCL_SOCKET_IFNAME");
  ASSERT_EQ(have.front(), '=') << have;
  EXPECT_EQ(names_in(want).count(have.substr(1)), 1u) << have;
}

void PlannedMachine::check_numa(const Json& want) {
  for (const auto& [gpu, numa] : want.items()) {
    const TaskPlan* task = task_of(gpu);
    ASSERT_NE(task, nullptr) << gpu;
    if (empty_topology_file) continue;
    EXPECT_EQ(task->mem_node.value_or(-1), numa.get<int>()) << gpu;
  }
}

void PlannedMachine::check_cpus(const Json& want) {
  for (const auto& [gpu, cpus] : want.items()) {
    const TaskPlan* task = task_of(gpu);
    ASSERT_NE(task, nullptr) << gpu;
    if (empty_topology_file)
      EXPECT_FALSE(task->cpus) << gpu;
    else
      EXPECT_EQ(task->cpus.value_or(CpuSet()).list(), CpuSet::from_list(cpus.get<std::string>())->list()) << gpu;
  }
}

void PlannedMachine::check_near_nic(const Json& want) {
  for (const auto& [gpu, nics] : want.items()) {
    const TaskPlan* task = task_of(gpu);
    ASSERT_NE(task, nullptr) << gpu;
    if (empty_topology_file) continue;
    EXPECT_EQ(Names(task->hcas.begin(), task->hcas.end()), names_in(nics)) << gpu;
  }
}

void PlannedMachine::check_topology_file(const Json& want) {
  EXPECT_EQ(value_of(plan.env, "NCCL_TOPO_FILE"), want.get<std::string>());
}

void PlannedMachine::check_env(const Json& want) {
  for (const auto& [name, value] : want.items())
    EXPECT_EQ(value_of(plan.env, name), value.is_null() ? "(unset)" : value.get<std::string>()) << name;
}

Names PlannedMachine::nearest(const std::string& gpu, const std::map<std::string, std::string>& name_to_bdf) const {
  Distance best = Distance::unknown;
  for (const auto& [name, bdf] : name_to_bdf) best = std::min(best, distance(node, gpu, bdf));
  Names names;
  for (const auto& [name, bdf] : name_to_bdf)
    if (distance(node, gpu, bdf) == best) names.insert(name);
  return names;
}

void PlannedMachine::check_near_efa(const Json& want) {
  std::map<std::string, std::string> efa;
  for (const RdmaDevice& device : node.rdma)
    if (driver_of(node, device) == "efa") efa[device.name] = device.bdf;
  for (const auto& [gpu, nics] : want.items()) EXPECT_EQ(nearest(gpu, efa), names_in(nics)) << gpu;
}

void PlannedMachine::check_near_netdev(const Json& want) {
  std::map<std::string, std::string> netdevs;
  for (const NetInterface& interface : node.net)
    if (!interface.bdf.empty()) netdevs[interface.name] = interface.bdf;
  for (const auto& [gpu, names] : want.items()) {
    // Which of a pair belongs to which GPU is inferred in the record; that it is among the nearest is not.
    const Names have = nearest(gpu, netdevs);
    for (const std::string& name : names_in(names)) EXPECT_EQ(have.count(name), 1u) << gpu << " " << name;
  }
}

// The masks that Slurm gave, with each GPU named as --gpu-bind names it, and without any name at all.
void PlannedMachine::check_slurm_case(const Json& want) {
  for (const bool outside : {false, true}) {
    Step step;
    step.outside_slurm = outside;
    step.gpu_order = GpuOrder::minor;  // the record's order is the order of the ranks
    step.local_tasks = static_cast<int>(want["task_cpus"].size());
    for (int i = 0; i < step.local_tasks; ++i) {
      Task task;
      task.local_id = i;
      task.mask = CpuSet::from_list(want["task_cpus"][i].get<std::string>());
      if (!outside) {
        task.env["CUDA_VISIBLE_DEVICES"] = task.env["SLURM_STEP_GPUS"] = std::to_string(i);
        task.env["SLURMD_TRES_BIND"] = "gres/gpu:closest";
      }
      step.tasks.push_back(task);
    }
    const Plan slurm = make_plan(node, policy, step);
    for (int i = 0; i < step.local_tasks; ++i)
      EXPECT_EQ(slurm.tasks[i].cpus.value_or(CpuSet()).list(), want["want"][i].get<std::string>())
          << "task " << i << (outside ? " outside Slurm" : "");
  }
}

// A hint is a plain value, an answer is what the other checks take.
void PlannedMachine::check_with_policy(const Json& want) {
  Policy hinted = policy;
  if (want.contains("fabric_subnet")) hinted.fabric_subnet = Sourced{want["fabric_subnet"], "site.yaml:1"};
  if (want.contains("exclude_hcas"))
    for (const std::string& name : names_in(want["exclude_hcas"])) hinted.exclude_hcas.push_back({name, "site.yaml:2"});
  if (want.contains("socket_ifname") && want["socket_ifname"].is_string())
    hinted.socket_ifname = Sourced{want["socket_ifname"], "site.yaml:3"};
  plan = make_plan(node, hinted, step_for_each_gpu());
  for (const auto& [key, value] : want.items()) {
    if (key == "nccl_ib_hca")
      check_hcas(value);
    else if (key == "gid_index")
      check_gid(value);
    else if (key == "socket_ifname" && value.is_array())
      check_interface(value);
    else if (key != "fabric_subnet" && key != "exclude_hcas" && key != "socket_ifname")
      ADD_FAILURE() << "with_policy." << key << " has no check";
  }
}

void PlannedMachine::check_no_nvidia(const Json& want) {
  ASSERT_EQ(want.get<int>(), 0);
  EXPECT_TRUE(plan.env.empty());
  int told = 0;
  for (const Note& note : plan.notes) told += note.object == "GPU" ? 1 : 0;
  EXPECT_EQ(told, 1);
  for (const HcaDecision& hca : plan.hcas) EXPECT_FALSE(hca.used()) << hca.name;
  Task task;
  task.mask = CpuSet::from_list("0-3");
  EXPECT_FALSE(plan_task(node, plan, policy, Step{}, task).cpus);
}

void PlannedMachine::check_rdma_numa(const Json& want) {
  for (const auto& [name, numa] : want.items()) {
    const RdmaDevice* device = node.find_rdma(name);
    ASSERT_NE(device, nullptr) << name;
    EXPECT_EQ(numa_of(node, device->bdf).value_or(-1), numa.get<int>()) << name;
  }
}

void PlannedMachine::check_efa_devices(const Json& want) {
  EXPECT_EQ(plan.profile, "aws-efa");
  for (const std::string& name : names_in(want)) {
    const auto row = std::find_if(plan.hcas.begin(), plan.hcas.end(), [&](const auto& h) { return h.name == name; });
    ASSERT_NE(row, plan.hcas.end()) << name;
    EXPECT_EQ(row->use, "other-fabric") << name;
  }
  for (const EnvSetting& setting : plan.env) EXPECT_NE(setting.name.rfind("NCCL_IB_", 0), 0u) << setting.name;
}

// GPU memory is a NUMA node without CPUs: never where a task is put.
void PlannedMachine::check_memory_numa(const Json& want) {
  for (const auto& [gpu, numa] : want.items()) EXPECT_NE(task_of(gpu)->mem_node.value_or(-1), numa.get<int>()) << gpu;
}

// The data NICs of TCPXO are none of NCCL's sockets.
void PlannedMachine::check_fastrak(const Json& want) {
  const std::string have = value_of(plan.env, "NCCL_SOCKET_IFNAME");
  const std::string list = want.get<std::string>();
  for (const std::string_view name : split(list, ',')) EXPECT_NE(have, "=" + std::string(name));
}

TEST_P(PlannedMachine, HasEveryExpectedAnswer) {
  const std::map<std::string, std::function<void(const Json&)>> checks = {
      {"nccl_ib_hca", [&](const Json& j) { check_hcas(j); }},
      {"excluded_hcas", [&](const Json& j) { check_excluded(j); }},
      {"gid_index", [&](const Json& j) { check_gid(j); }},
      {"socket_ifname", [&](const Json& j) { check_interface(j); }},
      {"gpu_numa", [&](const Json& j) { check_numa(j); }},
      {"gpu_cpus", [&](const Json& j) { check_cpus(j); }},
      {"gpu_near_nic", [&](const Json& j) { check_near_nic(j); }},
      {"nccl_topo_file", [&](const Json& j) { check_topology_file(j); }},
      {"env", [&](const Json& j) { check_env(j); }},
      {"gpu_near_efa", [&](const Json& j) { check_near_efa(j); }},
      {"gpu_near_netdev", [&](const Json& j) { check_near_netdev(j); }},
      {"slurm_case", [&](const Json& j) { check_slurm_case(j); }},
      {"nvidia_gpus", [&](const Json& j) { check_no_nvidia(j); }},
      {"rdma_numa", [&](const Json& j) { check_rdma_numa(j); }},
      {"efa_devices", [&](const Json& j) { check_efa_devices(j); }},
      {"gpu_mem_numa", [&](const Json& j) { check_memory_numa(j); }},
      {"fastrak_ifname", [&](const Json& j) { check_fastrak(j); }},
      {"with_policy",
       [&](const Json& j) { check_with_policy(j); }},  // last in the record's order or not: plan is its own
      {"source", [](const Json&) {}},
      {"notes", [](const Json&) {}},
  };
  const Plan first = plan;
  for (const auto& [key, value] : expected.items()) {
    SCOPED_TRACE(key);
    plan = first;
    const auto check = checks.find(key);
    if (check == checks.end())
      ADD_FAILURE() << "expected." << key << " has no check";
    else
      check->second(value);
  }
}

// Whatever the machine: the list is exact and in PCI order, nothing is empty, every decision has its reason.
TEST_P(PlannedMachine, IsWellFormed) {
  for (const EnvSetting& setting : plan.env) {
    EXPECT_FALSE(setting.value.empty()) << setting.name;
    EXPECT_FALSE(setting.rule.empty()) << setting.name;
    EXPECT_EQ(setting.why.back(), '.') << setting.name << ": " << setting.why;
  }
  std::string last;
  for (const HcaDecision& hca : plan.hcas) {
    EXPECT_FALSE(hca.rule.empty() || hca.why.empty() || hca.use.empty()) << hca.name;
    const std::string bdf = node.find_rdma(hca.name)->bdf;
    EXPECT_FALSE(bdf_less(bdf, last)) << hca.name;
    last = bdf;
  }
  for (const TaskPlan& task : plan.tasks) EXPECT_FALSE(task.why.empty());
}

// ---- the flat guest's topology file

// A copy of the ND A100 v4 guest with its topology file elsewhere, or nowhere ("").
Plan plan_with_topology_at(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path copy = fs::path(testing::temporary_folder()) / "guest";
  fs::copy(testing::machine_folder("azure-ndv4"), copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const fs::path shipped = copy / "opt/microsoft/ndv4/topo.xml";
  if (!path.empty()) {
    fs::create_directories((copy / path).parent_path());
    fs::rename(shipped, copy / path);
  } else {
    fs::remove(shipped);
  }
  const Policy policy = testing::shipped_policy();
  ReadOptions options;
  options.probe = policy.files();
  options.topology_files = policy.topology_files();
  const Result<Root> root = Root::open(copy.string());
  EXPECT_TRUE(root.ok());
  Node node = read_node(*root, options);
  if (!path.empty()) node.dmi.clear();
  Step step;
  step.outside_slurm = true;
  step.local_tasks = 8;
  step.tasks.resize(8);
  for (int i = 0; i < 8; ++i) step.tasks[i].local_id = i;
  return make_plan(node, policy, step);
}

TEST(TopologyFile, WithoutItTheLocalityIsUnknownAndTheHcasAreRightAllTheSame) {
  const Plan plan = plan_with_topology_at("");
  EXPECT_EQ(value_of(plan.env, "NCCL_TOPO_FILE"), "(unset)");
  EXPECT_EQ(devices_in(value_of(plan.env, "NCCL_IB_HCA")).size(), 8u);
  for (const TaskPlan& task : plan.tasks) {
    EXPECT_FALSE(task.cpus);
    EXPECT_TRUE(task.hcas.empty());
    EXPECT_FALSE(task.notes.empty());
  }
}

TEST(TopologyFile, TheOnlyOneThatAWildcardMatches) {
  const Plan plan = plan_with_topology_at("etc/crusoe/nccl_topo/a100-80gb-sxm-ib.xml");
  EXPECT_EQ(plan.platform, "crusoe");
  EXPECT_EQ(value_of(plan.env, "NCCL_TOPO_FILE"), "/etc/crusoe/nccl_topo/a100-80gb-sxm-ib.xml");
  EXPECT_EQ(plan.tasks[0].cpus.value_or(CpuSet()).list(), "24-47");
}

TEST(TopologyFile, TheOneThatNcclReadsByItself) {
  const Plan plan = plan_with_topology_at("var/run/nvidia-topologyd/virtualTopology.xml");
  EXPECT_EQ(plan.platform, "nebius");
  EXPECT_EQ(value_of(plan.env, "NCCL_TOPO_FILE"), "(unset)");
  EXPECT_EQ(plan.tasks[2].hcas, (std::vector<std::string>{"mlx5_ib2", "mlx5_ib3"}));
}

INSTANTIATE_TEST_SUITE_P(Machines, PlannedMachine, ::testing::ValuesIn(testing::machine_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace nccltune
