// SPDX-License-Identifier: Apache-2.0
#include "policy/task_gpus.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "node/distance.h"
#include "policy/facts.h"

namespace nccltune {
namespace {

using Gpus = std::vector<const Gpu*>;

bool has(const Environment& env, const char* name) { return env.count(name) > 0; }

std::string count_of(std::size_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

Gpus all_gpus(const Node& node, GpuOrder order) {
  Gpus gpus;
  for (const Gpu& gpu : node.gpus) gpus.push_back(&gpu);
  // One that the driver does not have (failed, excluded, given to a guest) has no place in NVML's and CUDA's order.
  if (std::any_of(gpus.begin(), gpus.end(), [](const Gpu* gpu) { return gpu->minor.has_value(); }))
    gpus.erase(std::remove_if(gpus.begin(), gpus.end(), [](const Gpu* gpu) { return !gpu->minor; }), gpus.end());
  std::stable_sort(gpus.begin(), gpus.end(), [&](const Gpu* a, const Gpu* b) {
    if (order == GpuOrder::minor && a->minor && b->minor) return *a->minor < *b->minor;
    return bdf_less(a->bdf, b->bdf);
  });
  return gpus;
}

// What the device nodes grant. nullopt: nobody asked, or a GPU has no minor to ask for.
std::optional<Gpus> accessible(const Gpus& all, const Task& task) {
  if (!task.openable_minors) return std::nullopt;
  Gpus gpus;
  for (const Gpu* gpu : all) {
    if (!gpu->minor) return std::nullopt;
    if (task.openable_minors->count(*gpu->minor) > 0) gpus.push_back(gpu);
  }
  return gpus;
}

const Gpu* find_uuid(const Gpus& gpus, std::string_view uuid) {
  const Gpu* found = nullptr;
  for (const Gpu* gpu : gpus) {
    if (gpu->uuid.compare(0, uuid.size(), uuid) != 0) continue;  // CUDA takes any prefix that is unique
    if (found != nullptr) return nullptr;
    found = gpu;
  }
  return found;
}

struct Listed {
  Gpus gpus;
  std::string fault;  // why the list cannot be read; "" when it can
};

// Reads "0,2" or "GPU-...,GPU-..." against the set that its indexes count.
Listed read_list(const std::string& name, const std::string& list, const Gpus& counted) {
  Listed result;
  for (const std::string_view part : split(list, ',')) {
    const std::string_view word = trim(part);
    const Gpu* gpu = nullptr;
    if (word.rfind("MIG-", 0) == 0) {
      result.fault = name + " names a MIG instance, '" + std::string(word) + "', and NCCL does not span those";
      return result;
    }
    if (word.rfind("GPU-", 0) == 0) {
      gpu = find_uuid(counted, word);
    } else if (const auto index = parse_int(word, 0, static_cast<int64_t>(counted.size()) - 1)) {
      gpu = counted[static_cast<std::size_t>(*index)];
    }
    if (gpu == nullptr) {
      result.fault = name + "='" + list + "' does not fit the " + count_of(counted.size(), "GPU") + " that the task " +
                     "can reach";
      return result;
    }
    if (std::find(result.gpus.begin(), result.gpus.end(), gpu) == result.gpus.end()) result.gpus.push_back(gpu);
  }
  return result;
}

// Slurm binds GPUs to tasks: "gpu:per_task:1" (22.05), "gres/gpu:single:1" (23.11), never for "gpu:none".
bool is_bound(const Environment& env) {
  const std::string bind = value_of(env, "SLURMD_TRES_BIND");
  for (const std::string_view part : split(bind, '+')) {
    std::string_view word = trim(part);
    if (word.rfind("gres/", 0) == 0) word.remove_prefix(5);
    if (word.rfind("gpu:", 0) != 0) continue;
    word.remove_prefix(4);
    if (word.rfind("verbose,", 0) == 0) word.remove_prefix(8);
    if (word != "none") return true;
  }
  return false;
}

bool is_part_of(const std::string& part, const std::string& whole) {
  const auto words = split(whole, ',');
  const auto own = split(part, ',');
  return std::all_of(own.begin(), own.end(),
                     [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); });
}

// Numbers, and not UUIDs.
bool is_index_list(const std::string& list) { return !list.empty() && list[0] >= '0' && list[0] <= '9'; }

TaskGpus uncertain(Gpus visible, std::string why) { return {{}, std::move(visible), std::move(why), false}; }

// One of several tasks that see the same GPUs: the i-th share, if there is one for each.
TaskGpus share(const Gpus& visible, const Step& step, const Task& task, const std::string& seen) {
  const std::size_t tasks = static_cast<std::size_t>(std::max(step.local_tasks, 1));
  // By value: g++ 14 takes a copy of a vector that it knows to hold one element for one past its end.
  if (visible.size() == 1) return {{visible.front()}, {visible.front()}, seen + ", the only one.", tasks > 1};
  if (tasks == 1) return {visible, visible, seen + ", all for the node's one task.", false};
  if (visible.size() % tasks != 0 || task.local_id < 0 || static_cast<std::size_t>(task.local_id) >= tasks)
    return uncertain(visible, count_of(tasks, "task") + " see the same " + count_of(visible.size(), "GPU") +
                                  " and no binding tells whose is which; ask for --gpus-per-task");
  const std::size_t each = visible.size() / tasks;
  const auto first = visible.begin() + static_cast<std::ptrdiff_t>(task.local_id * each);
  return {Gpus(first, first + static_cast<std::ptrdiff_t>(each)), visible,
          seen + ", shared in order by " + count_of(tasks, "task") + " as launchers do by LOCAL_RANK.", false};
}

// Outside Slurm: the i-th of the visible ones in PCI order. A mask that lies beside one single GPU, and not beside the
// i-th, tells that whoever placed the task meant that one.
TaskGpus outside_slurm(const Node& node, const Step& step, const Task& task) {
  Gpus all = all_gpus(node, GpuOrder::pci);
  if (const auto open = accessible(all, task)) all = *open;
  std::string seen = "In PCI order";
  const std::string list = value_of(task.env, "CUDA_VISIBLE_DEVICES");
  if (!list.empty()) {
    Listed listed = read_list("CUDA_VISIBLE_DEVICES", list, all);
    if (!listed.fault.empty()) return uncertain(all, listed.fault);
    all = std::move(listed.gpus);
    seen = "From CUDA_VISIBLE_DEVICES";
  }
  if (all.empty()) return uncertain(all, "no GPU is visible to the task");
  TaskGpus result = share(all, step, task, seen);
  if (!task.mask || result.gpus.size() != 1 || all.size() == 1) return result;
  Gpus beside;
  for (const Gpu* gpu : all) {
    const auto cpus = cpus_near(node, gpu->bdf);
    if (cpus && !(*cpus & *task.mask).empty()) beside.push_back(gpu);
  }
  if (beside.size() != 1 || beside.front() == result.gpus.front()) return result;
  return {std::move(beside), std::move(all), "The only GPU beside the CPUs that the task was given.", false};
}

// No variable names a GPU: --exclusive without gres, or --gpu-bind=none on Slurm before 23.11, where only user_init saw
// the step's list.
TaskGpus from_no_variable(const Gpus& all, const std::optional<Gpus>& open, const Step& step, const Task& task) {
  if (!open) return uncertain(all, "Slurm names no GPU of the task and the device nodes could not be asked");
  if (open->empty()) return uncertain(*open, "the task may not open any GPU");
  if (!step.step_gpus.empty()) {
    // CUDA then counts every GPU that it can open, not the step's own.
    const std::size_t listed = split(step.step_gpus, ',').size();
    if (listed != open->size())
      return uncertain(*open, "the step has " + count_of(listed, "GPU") + " but the task can open " +
                                  std::to_string(open->size()) + " and no variable tells which are meant");
    return share(*open, step, task, "The step's GPUs, without a binding");
  }
  return share(*open, step, task, "Every GPU that the task may open");
}

TaskGpus from_list(const std::string& name, const std::string& list, const Gpus& all, const std::optional<Gpus>& open,
                   const Step& step, const Task& task) {
  const bool constrained = open && open->size() < all.size();
  const Gpus& counted = constrained ? *open : all;
  if (counted.empty()) return uncertain({}, "the task may not open any GPU");
  Listed listed = read_list(name, list, counted);
  if (!listed.fault.empty()) return uncertain(counted, listed.fault);
  const std::string own_step_gpus = value_of(task.env, "SLURM_STEP_GPUS");
  // Both count the same devices where nothing is constrained; if they differ, one of them was rewritten
  // (--gres-flags=allow-task-sharing counts within the job).
  if (!constrained && name == "CUDA_VISIBLE_DEVICES" && is_index_list(own_step_gpus) && is_index_list(list)) {
    const Listed other = read_list("SLURM_STEP_GPUS", own_step_gpus, all);
    if (!other.fault.empty() || other.gpus != listed.gpus)
      return uncertain(counted, "CUDA_VISIBLE_DEVICES='" + list + "' and SLURM_STEP_GPUS='" + own_step_gpus +
                                    "' name different GPUs");
  }
  if (!constrained && !step.step_gpus.empty() && is_index_list(list) && is_index_list(step.step_gpus) &&
      !is_part_of(list, step.step_gpus))
    return uncertain(counted, name + "='" + list + "' is no part of the step's GPUs " + step.step_gpus);
  const std::string seen = (constrained ? "Index " + list + " of the GPUs that the task may open" : name + "=" + list);
  // A step that binds nothing inherits the variable of the task that started it; it cannot be told from a binding that
  // gives every task the whole step, and there, too, programs go by LOCAL_RANK.
  const bool whole_step = !step.step_gpus.empty() && own_step_gpus == step.step_gpus && step.local_tasks > 1;
  if (is_bound(task.env) && !whole_step) return {listed.gpus, listed.gpus, seen + ", bound by Slurm.", false};
  if (!own_step_gpus.empty() && own_step_gpus != step.step_gpus && is_part_of(own_step_gpus, step.step_gpus))
    return {listed.gpus, listed.gpus, seen + ", a part of the step's " + step.step_gpus + ".", false};
  return share(listed.gpus, step, task, seen);
}

}  // namespace

TaskGpus find_task_gpus(const Node& node, const Step& step, const Task& task) {
  if (node.gpus.empty()) return uncertain({}, "no NVIDIA GPU is visible");
  if (step.outside_slurm) return outside_slurm(node, step, task);
  const Gpus all = all_gpus(node, step.gpu_order);
  const std::optional<Gpus> open = accessible(all, task);
  const std::string visible = value_of(task.env, "CUDA_VISIBLE_DEVICES");
  if (has(task.env, "CUDA_VISIBLE_DEVICES")) {
    if (visible.empty() || visible == "NoDevFiles" || visible == "-1" || lower(visible) == "none")
      return uncertain({}, "CUDA_VISIBLE_DEVICES='" + visible + "' gives the task no GPU");
    return from_list("CUDA_VISIBLE_DEVICES", visible, all, open, step, task);
  }
  const std::string own = value_of(task.env, "SLURM_STEP_GPUS");
  if (!own.empty()) return from_list("SLURM_STEP_GPUS", own, all, open, step, task);
  return from_no_variable(all, open, step, task);
}

}  // namespace nccltune
