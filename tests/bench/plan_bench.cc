// SPDX-License-Identifier: Apache-2.0
// What the plugin does once a node in user_init and once a task in task_init, on the machine that $NCCLTUNE_BENCH_ROOT
// holds and with the policy $NCCLTUNE_BENCH_POLICY.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/root.h"
#include "node/node.h"
#include "node/read.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/step.h"

namespace {

using namespace nccltune;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    std::fprintf(stderr, "%s is not set; run this by way of `make bench`\n", name);
    std::exit(2);
  }
  return value;
}

template <typename T>
T value_or_exit(Result<T> result) {
  if (result.ok()) return std::move(result.value());
  std::fprintf(stderr, "%s\n", result.error().text().c_str());
  std::exit(2);
}

Root root() { return value_or_exit(Root::open(setting("NCCLTUNE_BENCH_ROOT"))); }
Policy policy() { return value_or_exit(load_policy(setting("NCCLTUNE_BENCH_POLICY"), "")); }

ReadOptions read_options(const Policy& policy) {
  ReadOptions options;
  options.details = false;  // as the plugin reads
  options.probe = policy.files();
  options.topology_files = policy.topology_files();
  options.details = false;  // as the plugin asks
  return options;
}

// A step that has every GPU of the node, a task for each.
Step step_of(const Node& node) {
  Step step;
  step.node_name = "bench";
  step.local_tasks = std::max<int>(1, static_cast<int>(node.gpus.size()));
  for (int i = 0; i < step.local_tasks; ++i) {
    step.step_gpus += (i > 0 ? "," : "") + std::to_string(i);
    Task task;
    task.local_id = i;
    task.env = {{"CUDA_VISIBLE_DEVICES", std::to_string(i)}, {"SLURM_STEP_GPUS", std::to_string(i)}};
    step.tasks.push_back(task);
  }
  return step;
}

void load_policy_file(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(policy());
}
BENCHMARK(load_policy_file)->Unit(benchmark::kMicrosecond);

void read_node_facts(benchmark::State& state) {
  const Root machine = root();
  const ReadOptions options = read_options(policy());
  for (auto _ : state) benchmark::DoNotOptimize(read_node(machine, options));
}
BENCHMARK(read_node_facts)->Unit(benchmark::kMicrosecond);

void plan_the_node(benchmark::State& state) {
  const Policy rules = policy();
  const Node node = read_node(root(), read_options(rules));
  const Step step = step_of(node);
  for (auto _ : state) benchmark::DoNotOptimize(plan_node(node, rules, step));
}
BENCHMARK(plan_the_node)->Unit(benchmark::kMicrosecond);

void plan_one_task(benchmark::State& state) {
  const Policy rules = policy();
  const Node node = read_node(root(), read_options(rules));
  const Step step = step_of(node);
  const Plan plan = plan_node(node, rules, step);
  for (auto _ : state) benchmark::DoNotOptimize(plan_task(node, plan, rules, step, step.tasks.back()));
}
BENCHMARK(plan_one_task)->Unit(benchmark::kMicrosecond);

// All of user_init: the figure that has the goal of 3 ms.
void policy_facts_and_plan(benchmark::State& state) {
  for (auto _ : state) {
    const Policy rules = policy();
    const Node node = read_node(root(), read_options(rules));
    benchmark::DoNotOptimize(plan_node(node, rules, step_of(node)));
  }
}
BENCHMARK(policy_facts_and_plan)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
