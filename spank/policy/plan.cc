// SPDX-License-Identifier: Apache-2.0
#include "policy/plan.h"

#include <algorithm>

#include "base/text.h"
#include "node/distance.h"
#include "policy/binding.h"
#include "policy/extra_env.h"
#include "policy/facts.h"
#include "policy/gid.h"
#include "policy/hcas.h"
#include "policy/interface.h"
#include "policy/kept.h"
#include "policy/lint.h"
#include "policy/nccl_list.h"
#include "policy/profile.h"
#include "policy/sharp.h"
#include "policy/task_gpus.h"

namespace nccltune {
namespace {

constexpr const char* kGeneric = "generic";

void choose_profile(const Node& node, const Policy& policy, const Step& step, const std::vector<ChosenPort>& hcas,
                    Plan& plan, std::optional<Profile>& whole) {
  const Profile* matched = match_profile(node, policy, hcas);
  const Profile* in_force = matched;
  if (!step.profile.empty()) {
    const Profile* forced = find_profile(policy, step.profile);
    if (forced != nullptr)
      in_force = forced;
    else
      plan.notes.push_back({"profile=" + step.profile, "the policy has no such profile; the facts decide"});
  }
  plan.platform = matched == nullptr ? kGeneric : matched->name;
  if (in_force == nullptr) return;
  plan.profile = in_force->name;
  plan.profile_why = in_force->why;
  plan.profile_where = in_force->where;
  whole = with_extended(policy, *in_force, plan.notes);
}

// The fabric is reached through a plugin of its own, which brings its own values: none of NCCL_IB_* is ours to set.
void hand_over_to_plugin(const Profile& profile, Plan& plan) {
  for (HcaDecision& hca : plan.hcas) {
    if (!hca.used()) continue;
    hca.use = "other-fabric";
    hca.rule = "hca.net-plugin";
    hca.why = "Profile " + profile.name + " reaches its fabric through the plugin '" + profile.net_plugin + "'.";
  }
}

void plan_hca_list(const std::vector<ChosenPort>& hcas, std::vector<EnvSetting>& env, std::vector<Note>& notes) {
  if (hcas.empty()) return;
  if (hcas.size() > kMaxHcas) {
    notes.push_back({"NCCL_IB_HCA", "not set: " + std::to_string(hcas.size()) +
                                        " ports look like the fabric and NCCL takes " + std::to_string(kMaxHcas) +
                                        "; name those to leave out in exclude_hcas"});
    return;
  }
  std::vector<std::string> labels;
  labels.reserve(hcas.size());
  for (const ChosenPort& hca : hcas) labels.push_back(hca.label());
  env.push_back({"NCCL_IB_HCA", "=" + join(labels, ","), "hca.compute",
                 "The " + std::to_string(hcas.size()) + (hcas.size() == 1 ? " port" : " ports") +
                     " of the compute fabric, by exact name and in PCI order; the same for every task of the node."});
}

// The ports whose GIDs matter: the user's own choice of HCAs when he made one.
std::vector<ChosenPort> ports_nccl_will_use(const Node& node, const Step& step, const std::vector<ChosenPort>& ours) {
  const auto own = existing_value(node, step.env, "NCCL_IB_HCA");
  if (!own) return ours;
  const NcclList list = NcclList::parse(own->value);
  std::vector<ChosenPort> ports;
  for (const RdmaDevice& device : node.rdma)
    for (const RdmaPort& port : device.ports)
      if (port.active() && list.takes(device.name, port.number)) ports.push_back({&device, &port});
  return ports;
}

void note_no_hca(const Node& node, const Plan& plan, std::vector<Note>& notes) {
  if (node.rdma.empty()) return;
  std::vector<std::string> down;
  for (const HcaDecision& hca : plan.hcas)
    if (hca.use == "down" || hca.use == "initializing") down.push_back(port_label(hca.name, hca.port));
  notes.push_back({"NCCL_IB_HCA", "not set: none of the " + std::to_string(plan.hcas.size()) +
                                      " RDMA ports of this node can carry the fabric" +
                                      (down.empty() ? "" : " (not ACTIVE: " + in_words(down) + ")")});
}

// A dead port among its working sisters, beside a GPU: the node runs, at a loss that somebody should know of.
void note_missing_rails(const Node& node, const std::vector<ChosenPort>& hcas, const Plan& plan,
                        std::vector<Note>& notes) {
  for (const HcaDecision& decision : plan.hcas) {
    if (decision.use != "down" && decision.use != "initializing") continue;
    const RdmaDevice* device = node.find_rdma(decision.name);
    const PciDevice* pci = device == nullptr ? nullptr : node.find_pci(device->bdf);
    if (pci == nullptr) continue;
    const bool has_sister = std::any_of(hcas.begin(), hcas.end(), [&](const ChosenPort& hca) {
      const PciDevice* other = node.find_pci(hca.device->bdf);
      return other != nullptr && other->vendor == pci->vendor && other->device == pci->device;
    });
    for (const Gpu& gpu : node.gpus) {
      if (!has_sister || !is_close(distance(node, gpu.bdf, device->bdf))) continue;
      notes.push_back({decision.name, "port " + std::to_string(decision.port) +
                                          " is not ACTIVE while its sisters are; it would serve GPU " + gpu.bdf});
      break;
    }
  }
}

void plan_network(const Node& node, const Policy& policy, const Step& step, const Profile* profile, Plan& plan,
                  std::vector<EnvSetting>& env) {
  const bool plugin = profile != nullptr && !profile->net_plugin.empty();
  if (plugin) hand_over_to_plugin(*profile, plan);
  const std::vector<ChosenPort> hcas = used_ports(node, plan.hcas);
  if (!plugin) {
    plan_hca_list(hcas, env, plan.notes);
    plan_gid(node, policy, ports_nccl_will_use(node, step, hcas), env, plan.notes);
    if (hcas.empty()) note_no_hca(node, plan, plan.notes);
    note_missing_rails(node, hcas, plan, plan.notes);
  }
  const auto interface = choose_interface(node, policy, step, hcas, plan.notes);
  if (interface) env.push_back({"NCCL_SOCKET_IFNAME", "=" + interface->name, interface->rule, interface->why});
  note_shared_subnets(node, plan.notes);
  const bool listed = !hcas.empty() && hcas.size() <= kMaxHcas;
  if (step.sharp && !plugin)
    plan_sharp(node, step, listed && hcas.front().port->link_layer == "InfiniBand", env, plan.notes);
  plan_peers(step, listed ? hcas : std::vector<ChosenPort>{}, interface ? interface->name : "", env);
  if (!plugin) plan_net_plugin(node, step, listed, env);
}

// A profile's variables are the site's word and replace what the rules found.
void lay_profile_over(const Node& node, const Profile& profile, const Step& step, Plan& plan,
                      std::vector<EnvSetting>& env) {
  std::vector<EnvSetting> own;
  plan_profile_env(node, profile, own, plan.notes);
  for (EnvSetting& setting : own) {
    env.erase(std::remove_if(env.begin(), env.end(), [&](const EnvSetting& e) { return e.name == setting.name; }),
              env.end());
    if (step.container && setting.name == "NCCL_TOPO_FILE")
      plan.notes.push_back({"NCCL_TOPO_FILE", setting.value + " is the host's; mount it into the container"});
    env.push_back(std::move(setting));
  }
}

// Multi-node NVLink needs no variable: NCCL 2.21 finds the domain itself. A container must be given the channel.
void note_imex(const Node& node, const Step& step, std::vector<Note>& notes) {
  if (!node.imex_channels) return;
  notes.push_back(
      {"NVLink", std::string("IMEX channels are here: NCCL 2.21 and newer uses NVLink between the nodes of a "
                             "domain by itself") +
                     (step.container ? "; the container needs NVIDIA_IMEX_CHANNELS=0" : "")});
}

Plan plan_foreign_node(const Node& node, const Step& step, Plan plan) {
  plan.notes.push_back(
      {"GPU", "the accelerators of this node are not NVIDIA's; nothing is exported and nothing is pinned"});
  for (const RdmaDevice& device : node.rdma)
    for (const RdmaPort& port : device.ports)
      plan.hcas.push_back({device.name, port.number, "no-gpu", "node.other-accelerators",
                           "Not a node for NCCL: its accelerators are another maker's."});
  lint_settings(node, step, plan.notes);
  return plan;
}

// The distances from a task's GPUs to each used HCA; those at the smallest are the task's.
std::vector<std::string> nearest_hcas(const Node& node, const Plan& plan, const std::vector<std::string>& gpus) {
  std::vector<std::string> nearest;
  Distance best = Distance::unknown;
  for (const ChosenPort& hca : used_ports(node, plan.hcas)) {
    Distance here = Distance::unknown;
    for (const std::string& gpu : gpus) here = std::min(here, distance(node, gpu, hca.device->bdf));
    if (here == Distance::unknown || here > best) continue;
    if (here < best) nearest.clear();
    best = here;
    if (std::find(nearest.begin(), nearest.end(), hca.device->name) == nearest.end())
      nearest.push_back(hca.device->name);
  }
  return nearest;
}

}  // namespace

Plan plan_node(const Node& node, const Policy& policy, const Step& step) {
  Plan plan;
  plan.host = node.hostname;
  plan.platform = plan.profile = kGeneric;
  if (has_only_other_accelerators(node)) return plan_foreign_node(node, step, std::move(plan));
  if (node.gpus.empty())
    plan.notes.push_back({"GPU", "no NVIDIA GPU is visible here; the network alone is planned, and nothing is pinned"});
  std::vector<EnvSetting> env;
  plan.hcas = choose_hcas(node, policy, step);
  std::optional<Profile> profile;
  choose_profile(node, policy, step, used_ports(node, plan.hcas), plan, profile);
  if (step.private_network)
    plan.notes.push_back({"network",
                          "the tasks get a network namespace of their own, which cannot be seen from here; HCAs, "
                          "GID index and interface are left to NCCL"});
  else
    plan_network(node, policy, step, profile ? &*profile : nullptr, plan, env);
  plan_device_order(node, env);
  if (profile) lay_profile_over(node, *profile, step, plan, env);
  note_imex(node, step, plan.notes);
  plan.env = without_kept(node, step, step.env, std::move(env), plan.kept);
  if (step.container)
    for (EnvSetting& setting : conf_as_settings(node, step.env)) plan.env.push_back(std::move(setting));
  add_unplanned(node, step.env, plan.kept);
  lint_settings(node, step, plan.notes);
  return plan;
}

// Device cgroups that hide the peers' GPUs (ConstrainDevices with --gpus-per-task, or another binding): two H200 joined
// by NVLink then end in "Cuda failure 101 'invalid device ordinal'" with NCCL 2.28.3, and without the binding reach 285
// GB/s; the like with other libraries is open-mpi/ompi#11949.
void note_hidden_peers(const Step& step, const Task& task, const TaskGpus& found, std::vector<Note>& notes) {
  if (!task.openable_minors || step.local_tasks < 2 || step.step_gpus.empty()) return;
  const std::size_t step_gpus = split(step.step_gpus, ',').size();
  if (found.visible.size() >= step_gpus || task.openable_minors->size() > found.visible.size()) return;
  notes.push_back({"task " + std::to_string(task.local_id),
                   "may open " + std::to_string(found.visible.size()) + " of the step's " + std::to_string(step_gpus) +
                       " GPUs, and NCCL reaches the GPUs of other tasks on the node only where they can be opened; use "
                       "--gres=gpu:" +
                       std::to_string(step_gpus) + " without a binding, or add --gpu-bind=none"});
}

TaskPlan plan_task(const Node& node, const Plan& node_plan, const Policy& policy, const Step& step, const Task& task) {
  TaskPlan plan;
  plan.local_id = task.local_id;
  if (has_only_other_accelerators(node)) {
    plan.why = "Not a node for NCCL.";
    return plan;
  }
  const TaskGpus found = find_task_gpus(node, step, task);
  for (const Gpu* gpu : found.gpus) plan.gpus.push_back(gpu->bdf);
  plan.why = found.why;
  if (found.gpus.empty() && !node.gpus.empty())
    plan.notes.push_back({"task " + std::to_string(task.local_id), "not pinned: " + found.why});
  note_hidden_peers(step, task, found, plan.notes);
  std::vector<std::string> reach = plan.gpus;
  if (reach.empty())
    for (const Gpu* gpu : found.visible) reach.push_back(gpu->bdf);
  plan.hcas = nearest_hcas(node, node_plan, reach);
  plan_binding(node, policy, step, task, plan);
  plan_torch(step, task, plan.env, plan.notes);
  std::vector<KeptSetting> kept;
  Environment env = step.env;
  for (const auto& [name, value] : task.env) env[name] = value;
  plan.env = without_kept(node, step, env, std::move(plan.env), kept);
  for (const KeptSetting& k : kept)
    plan.notes.push_back({k.name, "kept '" + k.value + "' (" + k.source + "); the plan has '" + k.planned + "'"});
  return plan;
}

std::optional<std::string> value_in_force(const Plan& plan, std::string_view name) {
  for (const KeptSetting& kept : plan.kept)
    if (kept.name == name) return kept.value;
  for (const EnvSetting& setting : plan.env)
    if (setting.name == name) return setting.value;
  return std::nullopt;
}

Plan make_plan(const Node& node, const Policy& policy, const Step& step) {
  Plan plan = plan_node(node, policy, step);
  for (const Task& task : step.tasks) plan.tasks.push_back(plan_task(node, plan, policy, step, task));
  return plan;
}

}  // namespace nccltune
