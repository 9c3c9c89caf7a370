// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_node.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cli/facts.h"
#include "cli/live_step.h"
#include "node/distance.h"
#include "node/read.h"
#include "policy/plan.h"

namespace nccltune::cli {
namespace {

// Absent: what is told leaves it open.
std::optional<bool> gpudirect_of(const Node& node) {
  const auto dma_buf = node.dma_buf();
  if (node.peermem == true || dma_buf == true) return true;
  return dma_buf && node.peermem ? std::optional(false) : std::nullopt;
}

double rate_of(const Node& node, const HcaDecision& hca) {
  const RdmaDevice* device = node.find_rdma(hca.name);
  if (device == nullptr) return 0;
  for (const RdmaPort& port : device->ports)
    if (port.number == hca.port) return port.rate_gbps.value_or(0);
  return 0;
}

// A task for each GPU, as the plan deals them out where no gres says otherwise.
Step task_a_gpu(const Node& node) {
  Step step;
  step.env = without_ours(environment_of_process());
  step.outside_slurm = true;
  step.local_tasks = static_cast<int>(node.gpus.size());
  for (int i = 0; i < step.local_tasks; ++i) step.tasks.emplace_back().local_id = i;
  return step;
}

}  // namespace

bench::NodeView view_node() {
  bench::NodeView view;
  auto source = open_source({});
  if (!source) return view;
  const Node node = read_node(source->root, source->read);
  const Plan plan = make_plan(node, source->policy, task_a_gpu(node));
  for (const HcaDecision& hca : plan.hcas)
    if (hca.used()) {
      view.active_hcas.push_back(hca.name + ":" + std::to_string(hca.port));
      view.hca_gbs += rate_of(node, hca) / 8;
    }
  view.gpudirect = gpudirect_of(node);
  const auto cpus = own_cpus();
  std::map<std::string, std::string> misplaced;
  for (const Gpu& gpu : node.gpus)
    if (const auto beside = cpus_near(node, gpu.bdf); beside && cpus && (*beside & *cpus).empty())
      misplaced[gpu.bdf] = "this task has CPUs " + cpus->list() + ", none of those beside its GPU, " + beside->list();
  view.misplaced = [misplaced = std::move(misplaced)](const std::string& bdf) {
    const auto at = misplaced.find(bdf);
    return at == misplaced.end() ? std::string() : at->second;
  };
  std::map<std::string, std::vector<std::string>> near;
  for (const TaskPlan& task : plan.tasks)
    for (const std::string& gpu : task.gpus) near[gpu] = task.hcas;
  view.hcas_near = [near = std::move(near)](const std::string& bdf) {
    const auto at = near.find(bdf);
    return at == near.end() ? std::vector<std::string>{} : at->second;
  };
  view.socket_interface = value_in_force(plan, "NCCL_SOCKET_IFNAME").value_or("");
  if (view.socket_interface.starts_with('=')) view.socket_interface.erase(0, 1);
  return view;
}

}  // namespace nccltune::cli
