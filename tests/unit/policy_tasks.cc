// SPDX-License-Identifier: Apache-2.0
// Which GPUs a task owns, by what Slurm's releases put into its environment, and where it is pinned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/node_builder.h"

namespace nccltune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace testing;  // NOLINT(google-build-using-namespace): the builder

// GPUs 0 and 1 beside CPUs 0-31, GPUs 2 and 3 beside 32-63; an HCA at each.
NodeBuilder four_gpus() {
  NodeBuilder machine;
  for (int i = 0; i < 4; ++i) {
    machine.gpu(i < 2 ? i : 14 + i, i);
    machine.hca({"mlx5_" + std::to_string(i), i < 2 ? i : 14 + i});
  }
  return machine;
}
const char* const kGpu[] = {"0000:03:00.0", "0000:0b:00.0", "0000:83:00.0", "0000:8b:00.0"};

Task task_of(int local_id, Environment env, const char* mask = "0-63") {
  Task task;
  task.local_id = local_id;
  task.env = std::move(env);
  task.mask = CpuSet::from_list(mask);
  return task;
}

Step step_of(int tasks, const std::string& step_gpus) {
  Step step;
  step.local_tasks = tasks;
  step.step_gpus = step_gpus;
  return step;
}

TaskPlan plan_of(const NodeBuilder& machine, const Step& step, const Task& task, const Policy& policy = {}) {
  return plan_task(machine.node, plan_node(machine.node, policy, step), policy, step, task);
}

Environment slurm(const std::string& gpus, const std::string& bind = "") {
  Environment env{{"CUDA_VISIBLE_DEVICES", gpus}, {"SLURM_STEP_GPUS", gpus}};
  if (!bind.empty()) env["SLURMD_TRES_BIND"] = bind;
  return env;
}

std::string pin_of(const TaskPlan& plan) { return plan.cpus ? plan.cpus->list() : "(as it is)"; }

TEST(TaskGpus, GpusPerNodeIsSharedInOrder) {
  const NodeBuilder machine = four_gpus();
  for (int i = 0; i < 4; ++i) {
    const TaskPlan plan = plan_of(machine, step_of(4, "0,1,2,3"), task_of(i, slurm("0,1,2,3")));
    EXPECT_THAT(plan.gpus, ElementsAre(kGpu[i]));
    EXPECT_THAT(plan.hcas, ElementsAre("mlx5_" + std::to_string(i)));
    EXPECT_EQ(pin_of(plan), i < 2 ? "0-31" : "32-63");
    EXPECT_THAT(plan.why, HasSubstr("LOCAL_RANK"));
  }
  EXPECT_THAT(plan_of(machine, step_of(2, "0,1,2,3"), task_of(1, slurm("0,1,2,3"))).gpus,
              ElementsAre(kGpu[2], kGpu[3]));
}

TEST(TaskGpus, ThreeGpusForTwoTasksIsNotCertain) {
  const TaskPlan plan = plan_of(four_gpus(), step_of(2, "0,1,2"), task_of(0, slurm("0,1,2")));
  EXPECT_THAT(plan.gpus, IsEmpty());
  EXPECT_FALSE(plan.cpus);
  EXPECT_THAT(notes_of(plan.notes, "task 0"), HasSubstr("--gpus-per-task"));
}

TEST(TaskGpus, PerTaskBindingOfBothSpellings) {
  for (const char* bind : {"gpu:per_task:1", "gres/gpu:per_task:1"}) {
    const TaskPlan plan = plan_of(four_gpus(), step_of(2, "0,2"), task_of(1, slurm("2", bind)));
    EXPECT_THAT(plan.gpus, ElementsAre(kGpu[2])) << bind;
  }
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1,2,3"), task_of(1, slurm("2,3", "gres/gpu:per_task:2"))).gpus,
              ElementsAre(kGpu[2], kGpu[3]));
}

TEST(TaskGpus, ClosestSingleAndMapBinding) {
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1,2,3"), task_of(1, slurm("2,3", "gpu:closest"))).gpus,
              ElementsAre(kGpu[2], kGpu[3]));
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1,2,3"), task_of(1, slurm("3", "gpu:single:1"))).gpus,
              ElementsAre(kGpu[3]));
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1,2,3"), task_of(0, slurm("3", "gpu:map_gpu:3,1"))).gpus,
              ElementsAre(kGpu[3]));
}

TEST(TaskGpus, BindingInheritedFromAnOuterTaskIsNone) {
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1,2,3"), task_of(1, slurm("0,1,2,3", "gpu:single:1"))).gpus,
              ElementsAre(kGpu[2], kGpu[3]));
  EXPECT_THAT(plan_of(four_gpus(), step_of(1, "0,1"), task_of(0, slurm("0,1", "gpu:per_task:2"))).gpus,
              ElementsAre(kGpu[0], kGpu[1]));
}

TEST(TaskGpus, NtasksPerGpuSharesOne) {
  const TaskPlan plan = plan_of(four_gpus(), step_of(2, "0,1"), task_of(1, slurm("0", "gpu:single:1")));
  EXPECT_THAT(plan.gpus, ElementsAre(kGpu[0]));
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0"), task_of(1, slurm("0"))).gpus, ElementsAre(kGpu[0]));
}

TEST(TaskGpus, BindNoneOn2205LeavesTheVariablesUnset) {
  Task task = task_of(1, {{"SLURMD_TRES_BIND", "gpu:none"}});
  task.openable_minors = std::set<int>{0, 1, 2, 3};
  EXPECT_THAT(plan_of(four_gpus(), step_of(4, "0,1,2,3"), task).gpus, ElementsAre(kGpu[1]));
  // A part of the node, and CUDA sees all of it: nobody can tell.
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "2,3"), task).gpus, IsEmpty());
  task.openable_minors = std::set<int>{2, 3};  // with ConstrainDevices it is certain again
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1"), task).gpus, ElementsAre(kGpu[3]));
}

TEST(TaskGpus, BindNoneFrom2311ListsTheStep) {
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1"), task_of(1, slurm("0,1", "gres/gpu:none"))).gpus,
              ElementsAre(kGpu[1]));
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1"), task_of(1, slurm("0,1", "gpu:verbose,none"))).gpus,
              ElementsAre(kGpu[1]));
}

TEST(TaskGpus, ConstrainDevicesWithIndexZeroForEveryTask) {
  for (int minor = 0; minor < 4; ++minor) {
    Task task = task_of(minor, slurm("0", "gres/gpu:per_task:1"));
    task.openable_minors = std::set<int>{minor};
    EXPECT_THAT(plan_of(four_gpus(), step_of(4, "0,1,2,3"), task).gpus, ElementsAre(kGpu[minor]));
  }
}

TEST(TaskGpus, PeersThatCannotBeOpenedAreTold) {
  const NodeBuilder machine = four_gpus();
  Task task = task_of(1, slurm("0", "gres:gpu:per_task:1"));
  task.openable_minors = {2};
  const TaskPlan plan = plan_of(machine, step_of(2, "0,2"), task);
  ASSERT_EQ(plan.notes.size(), 1u);
  EXPECT_EQ(plan.notes[0].object, "task 1");
  EXPECT_THAT(plan.notes[0].text, HasSubstr("may open 1 of the step's 2 GPUs"));
  EXPECT_THAT(plan.notes[0].text, HasSubstr("--gres=gpu:2 without a binding, or add --gpu-bind=none"));

  task.openable_minors = {0, 2};  // the step is constrained, its tasks are not
  EXPECT_THAT(plan_of(machine, step_of(2, "0,2"), task).notes, IsEmpty());
  task.openable_minors = {2};
  EXPECT_THAT(plan_of(machine, step_of(1, "2"), task).notes, IsEmpty()) << "no peer on this node";
}

TEST(TaskGpus, ConstrainedStepSharesWhatItMayOpen) {
  Task task = task_of(1, slurm("0,1"));
  task.openable_minors = std::set<int>{1, 3};
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1"), task).gpus, ElementsAre(kGpu[3]));
  task.env = slurm("0,5");
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,5"), task).gpus, IsEmpty());
}

TEST(TaskGpus, MinorsInAnotherOrderThanPci) {
  NodeBuilder machine;
  for (int i = 0; i < 4; ++i) machine.gpu(i < 2 ? i : 14 + i, 3 - i);
  Task task = task_of(0, slurm("0", "gpu:per_task:1"));
  Step step = step_of(4, "0,1,2,3");
  EXPECT_THAT(plan_of(machine, step, task).gpus, ElementsAre(kGpu[0]));
  step.gpu_order = GpuOrder::minor;
  EXPECT_THAT(plan_of(machine, step, task).gpus, ElementsAre(kGpu[3]));
  task.openable_minors = std::set<int>{1};  // what the kernel grants is sure in either order
  EXPECT_THAT(plan_of(machine, step, task).gpus, ElementsAre(kGpu[2]));
  step.gpu_order = GpuOrder::pci;
  EXPECT_THAT(plan_of(machine, step, task).gpus, ElementsAre(kGpu[2]));
}

TEST(TaskGpus, ExclusiveWithoutGres) {
  Task task = task_of(2, {});
  EXPECT_THAT(plan_of(four_gpus(), step_of(4, ""), task).gpus, IsEmpty());  // nobody asked the device nodes
  task.openable_minors = std::set<int>{0, 1, 2, 3};
  EXPECT_THAT(plan_of(four_gpus(), step_of(4, ""), task).gpus, ElementsAre(kGpu[2]));
  task.openable_minors = std::set<int>{};
  const TaskPlan none = plan_of(four_gpus(), step_of(4, ""), task);
  EXPECT_THAT(none.gpus, IsEmpty());
  EXPECT_THAT(notes_of(none.notes, "task 2"), HasSubstr("may not open any GPU"));
}

TEST(TaskGpus, UuidsAndMig) {
  const NodeBuilder machine = four_gpus();
  Environment env = slurm(machine.node.gpus[3].uuid);
  env.erase("SLURM_STEP_GPUS");
  EXPECT_THAT(plan_of(machine, step_of(1, ""), task_of(0, env)).gpus, ElementsAre(kGpu[3]));
  env["CUDA_VISIBLE_DEVICES"] = "GPU-0000";  // a prefix of all
  EXPECT_THAT(plan_of(machine, step_of(1, ""), task_of(0, env)).gpus, IsEmpty());
  env["CUDA_VISIBLE_DEVICES"] = "MIG-cafe";
  const TaskPlan plan = plan_of(machine, step_of(1, ""), task_of(0, env));
  EXPECT_THAT(plan.gpus, IsEmpty());
  EXPECT_FALSE(plan.cpus);
  EXPECT_THAT(notes_of(plan.notes, "task 0"), HasSubstr("names a MIG instance"));
}

TEST(TaskGpus, TwoVariablesOfATaskThatDisagree) {
  const Environment env = {{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "1"}};
  EXPECT_THAT(plan_of(four_gpus(), step_of(1, ""), task_of(0, env)).gpus, IsEmpty());
}

TEST(TaskGpus, ABoundTaskHasAllThatItSees) {
  Environment env = {{"CUDA_VISIBLE_DEVICES", "0,1"}};
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1,2,3"), task_of(0, env)).gpus, ElementsAre(kGpu[0]));
  env["SLURMD_TRES_BIND"] = "gres/gpu:mask:3,3";
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "0,1,2,3"), task_of(0, env)).gpus, ElementsAre(kGpu[0], kGpu[1]));
}

TEST(TaskGpus, NoGpuForTheTask) {
  for (const char* value : {"", "NoDevFiles", "-1"})
    EXPECT_THAT(
        notes_of(plan_of(four_gpus(), step_of(1, ""), task_of(0, {{"CUDA_VISIBLE_DEVICES", value}})).notes, "task 0"),
        HasSubstr("gives the task no GPU"))
        << value;
  EXPECT_THAT(plan_of(four_gpus(), step_of(1, "0"), task_of(0, slurm("7"))).gpus, IsEmpty());
  EXPECT_THAT(plan_of(four_gpus(), step_of(1, "0"), task_of(0, slurm("99999999999999999999"))).gpus, IsEmpty());
}

TEST(TaskGpus, VariablesThatDisagreeAreNotTrusted) {
  Environment env = slurm("0");
  env["SLURM_STEP_GPUS"] = "2";
  EXPECT_THAT(plan_of(four_gpus(), step_of(1, "2"), task_of(0, env)).gpus, IsEmpty());
  // --gres-flags=allow-task-sharing counts within the job: 0 and 1 of the step's 2 and 3.
  EXPECT_THAT(plan_of(four_gpus(), step_of(2, "2,3"), task_of(0, slurm("0", "gres/gpu:per_task:1"))).gpus, IsEmpty());
}

TEST(TaskGpus, OutsideSlurm) {
  Step step = step_of(4, "");
  step.outside_slurm = true;
  EXPECT_THAT(plan_of(four_gpus(), step, task_of(2, {})).gpus, ElementsAre(kGpu[2]));
  step.local_tasks = 1;
  EXPECT_EQ(plan_of(four_gpus(), step, task_of(0, {})).gpus.size(), 4u);
  step.local_tasks = 4;
  EXPECT_THAT(plan_of(four_gpus(), step, task_of(2, {{"CUDA_VISIBLE_DEVICES", "3"}})).gpus, ElementsAre(kGpu[3]));
}

// ---- pins

TEST(Binding, MaskAndTheGpusCpus) {
  const TaskPlan plan = plan_of(four_gpus(), step_of(1, "3"), task_of(0, slurm("3"), "24-40"));
  EXPECT_EQ(pin_of(plan), "32-40");
  EXPECT_EQ(plan.mem_node, 1);
  EXPECT_THAT(plan.notes, IsEmpty());
}

TEST(Binding, FarMaskIsLeftAlone) {
  const TaskPlan plan = plan_of(four_gpus(), step_of(1, "3"), task_of(0, slurm("3"), "0-15"));
  EXPECT_FALSE(plan.cpus);
  EXPECT_FALSE(plan.mem_node);
  EXPECT_EQ(value_of(plan.env, "NCCL_IGNORE_CPU_AFFINITY"), "1");
  EXPECT_THAT(notes_of(plan.notes, "task 0"), HasSubstr("--gpu-bind=closest"));
}

TEST(Binding, IgnoreAffinityOnlyThere) {
  EXPECT_EQ(value_of(plan_of(four_gpus(), step_of(1, "0"), task_of(0, slurm("0"))).env, "NCCL_IGNORE_CPU_AFFINITY"),
            "(unset)");
}

TEST(Binding, F36FewCpusBesideTheGpu) {
  const TaskPlan plan = plan_of(four_gpus(), step_of(1, "0"), task_of(0, slurm("0"), "5-6"));
  EXPECT_EQ(pin_of(plan), "5-6");
  EXPECT_THAT(notes_of(plan.notes, "task 0"), HasSubstr("--cpus-per-task=8"));
  const TaskPlan apart = plan_of(four_gpus(), step_of(1, "0"), task_of(0, slurm("0"), "31-50"));
  EXPECT_EQ(pin_of(apart), "31");
  EXPECT_THAT(notes_of(apart.notes, "task 0"), HasSubstr("--gpu-bind=closest"));
}

TEST(Binding, TaskWithGpusOnSeveralNumaNodesIsNotConfined) {
  const TaskPlan plan = plan_of(four_gpus(), step_of(1, "0,1,2,3"), task_of(0, slurm("0,1,2,3")));
  EXPECT_EQ(plan.gpus.size(), 4u);
  EXPECT_FALSE(plan.cpus);
  EXPECT_FALSE(plan.mem_node);
  EXPECT_THAT(notes_of(plan.notes, "task 0"), HasSubstr("nccl-tune exec"));
  EXPECT_EQ(pin_of(plan_of(four_gpus(), step_of(1, "0,1"), task_of(0, slurm("0,1")))), "0-31");
}

TEST(Binding, UnknownLocalityIsNotAGuess) {
  NodeBuilder machine = four_gpus();
  for (auto& [bdf, pci] : machine.node.pci) {
    pci.numa_node.reset();
    pci.local_cpus.reset();
  }
  const TaskPlan plan = plan_of(machine, step_of(1, "0"), task_of(0, slurm("0")));
  EXPECT_FALSE(plan.cpus);
  EXPECT_THAT(notes_of(plan.notes, "task 0"), HasSubstr("does not tell"));
}

TEST(Binding, CpuBindNoneIsRespected) {
  for (const char* name : {"SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND"}) {
    Environment env = slurm("0");
    env[name] = "quiet,none";
    const TaskPlan plan = plan_of(four_gpus(), step_of(1, "0"), task_of(0, env));
    EXPECT_FALSE(plan.cpus) << name;
    EXPECT_FALSE(plan.mem_node) << name;
  }
  Environment automatic = slurm("0");
  automatic["SLURM_CPU_BIND"] = "quiet,mask_cpu:0xffff";
  EXPECT_TRUE(plan_of(four_gpus(), step_of(1, "0"), task_of(0, automatic)).cpus);
}

TEST(Binding, SwitchedOffByStepAndByPolicy) {
  Step step = step_of(1, "0");
  step.bind = false;
  EXPECT_FALSE(plan_of(four_gpus(), step, task_of(0, slurm("0"))).cpus);
  Policy policy;
  policy.bind = false;
  EXPECT_FALSE(plan_of(four_gpus(), step_of(1, "0"), task_of(0, slurm("0")), policy).cpus);
}

TEST(Binding, WithoutAMaskAllLocalCpus) {
  Task task = task_of(0, slurm("0"));
  task.mask.reset();
  EXPECT_EQ(pin_of(plan_of(four_gpus(), step_of(1, "0"), task)), "0-31");
}

TEST(Binding, OfflineCpusAndMemorylessNodes) {
  NodeBuilder machine = four_gpus();
  machine.node.online_cpus = *CpuSet::from_list("0-7,32-63");
  machine.node.numa[0].memory_kb = 0;
  Task task = task_of(0, slurm("0"));
  const TaskPlan plan = plan_of(machine, step_of(1, "0"), task);
  EXPECT_EQ(pin_of(plan), "0-7");
  EXPECT_FALSE(plan.mem_node);
  // Nor where the NUMA node is all that is known of the place.
  for (auto& [bdf, pci] : machine.node.pci) pci.local_cpus.reset();
  EXPECT_EQ(pin_of(plan_of(machine, step_of(1, "0"), task)), "0-7");
}

// Grace: a GPU's own memory is a NUMA node without CPUs, and no place for a task's pages by default.
TEST(Binding, NodesOfMemoryAloneAreNotPreferred) {
  NodeBuilder machine = four_gpus();
  machine.numa(2, "");
  for (auto& [bdf, pci] : machine.node.pci) pci.numa_node = 2;
  const TaskPlan plan = plan_of(machine, step_of(1, "0"), task_of(0, slurm("0")));
  EXPECT_FALSE(plan.mem_node);
}

}  // namespace
}  // namespace nccltune
