// SPDX-License-Identifier: Apache-2.0
#include "policy/binding.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "node/distance.h"
#include "policy/facts.h"

namespace nccltune {
namespace {

// `srun --cpu-bind=none` is the user's word; Slurm's own choice reads "quiet,mask_cpu:...".
bool user_wants_no_binding(const Environment& env) {
  for (const char* name : {"SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND"}) {
    const auto found = env.find(name);
    if (found == env.end()) continue;
    for (const std::string_view word : split(found->second, ','))
      if (trim(word) == "none") return true;
  }
  return false;
}

struct Locality {
  CpuSet cpus;            // local to all GPUs together
  std::set<int> numa;     // their NUMA nodes
  std::string unknown;    // the first GPU whose CPUs the kernel does not tell
  bool one_place = true;  // all GPUs have the same local CPUs
};

Locality locality_of(const Node& node, const std::vector<std::string>& gpus) {
  Locality result;
  for (const std::string& gpu : gpus) {
    const auto cpus = cpus_near(node, gpu);
    if (!cpus || cpus->empty()) {
      result.unknown = gpu;
      return result;
    }
    result.one_place = result.one_place && (result.cpus.empty() || result.cpus == *cpus);
    result.cpus |= *cpus;
    if (const auto numa = numa_of(node, gpu)) result.numa.insert(*numa);
  }
  result.one_place = result.one_place && result.numa.size() <= 1;
  if (!node.online_cpus.empty()) result.cpus &= node.online_cpus;
  return result;
}

// A preferred node is only of use when it has memory; numa_of() gives none without CPUs.
std::optional<int> memory_node(const Node& node, const Locality& local) {
  if (local.numa.size() != 1) return std::nullopt;
  const NumaNode* numa = node.find_numa(*local.numa.begin());
  if (numa == nullptr || numa->memory_kb == 0u) return std::nullopt;
  return numa->id;
}

std::string cpus_in_words(int count) { return std::to_string(count) + (count == 1 ? " CPU" : " CPUs"); }

void note_few_cpus(const Locality& local, const CpuSet& mask, const CpuSet& pin, TaskPlan& plan) {
  if (pin.count() >= kEnoughCpus) return;
  std::string text = "only " + cpus_in_words(pin.count()) + " (" + pin.list() +
                     ") beside its GPU; NCCL's proxy threads want " + std::to_string(kEnoughCpus) + " and more";
  if (mask.count() >= kEnoughCpus)
    text += "; its other CPUs are elsewhere: sbatch --gpu-bind=closest puts them together";
  else if (local.cpus.count() >= kEnoughCpus)
    text += "; sbatch --cpus-per-task=" + std::to_string(std::min(8, local.cpus.count())) + " gives it more";
  plan.notes.push_back({"task " + std::to_string(plan.local_id), text});
}

// The mask lies elsewhere. We never go out of it: it is what Slurm allotted. NCCL would intersect likewise, find
// nothing and leave its threads on the far mask; with this variable it uses the GPU's own CPUs where the cpuset lets
// it.
void leave_far_mask(const Locality& local, const CpuSet& mask, TaskPlan& plan) {
  plan.notes.push_back({"task " + std::to_string(plan.local_id),
                        "its CPUs " + mask.list() + " are not beside its GPU (" + local.cpus.list() +
                            "); left as Slurm gave them; sbatch --gpu-bind=closest, or more --cpus-per-task, puts them "
                            "together"});
  plan.env.push_back({"NCCL_IGNORE_CPU_AFFINITY", "1", "binding.far-mask",
                      "The task's CPUs and its GPU's have none in common, and the mask is Slurm's."});
}

void leave(TaskPlan& plan, const std::string& why) {
  plan.notes.push_back({"task " + std::to_string(plan.local_id), "CPU mask left as it is: " + why});
}

}  // namespace

void plan_binding(const Node& node, const Policy& policy, const Step& step, const Task& task, TaskPlan& plan) {
  if (!step.bind) return;
  if (!policy.bind) return leave(plan, "the site's policy says 'bind: false'");
  if (user_wants_no_binding(task.env)) return leave(plan, "--cpu-bind=none was asked for");
  if (plan.gpus.empty()) return;
  const Locality local = locality_of(node, plan.gpus);
  if (!local.unknown.empty()) return leave(plan, "the kernel does not tell which CPUs are beside " + local.unknown);
  if (!local.one_place)
    return leave(plan,
                 "its " + std::to_string(plan.gpus.size()) +
                     " GPUs are on several NUMA nodes; nccl-tune exec gives each of the task's processes its own");
  const CpuSet pin = task.mask ? *task.mask & local.cpus : local.cpus;
  if (pin.empty()) {
    if (task.mask && !task.mask->empty()) return leave_far_mask(local, *task.mask, plan);
    return leave(plan, "no CPU beside its GPU is online");
  }
  plan.cpus = pin;
  plan.mem_node = memory_node(node, local);
  if (task.mask) note_few_cpus(local, *task.mask, pin, plan);
}

}  // namespace nccltune
