// SPDX-License-Identifier: Apache-2.0
// A machine as a dump, an environment and a policy -> facts -> plan, all in memory.
#include "fuzz/planned.h"
#include "node/distance.h"
#include "node/dump.h"
#include "node/read.h"
#include "node/wire.h"
#include "policy/kept.h"

namespace fuzz {
namespace {

using namespace nccltune;

Environment environment(const std::string& lines) {
  Environment env;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string line = lines.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos && equals > 0) env.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return env;
}

std::string value_of(const Environment& env, const char* name) {
  const auto found = env.find(name);
  return found == env.end() ? "" : found->second;
}

// What holds for any plan, however odd the machine.
void check_plan(const Node& node, const Step& step, const Plan& plan) {
  const std::set<std::string> ours = names_set_by_us(step.env);
  for (const EnvSetting& setting : plan.env) {
    MUST(!setting.name.empty() && !setting.value.empty() && !setting.rule.empty() && !setting.why.empty());
    MUST(setting.value.find('\0') == std::string::npos);
    MUST(step.env.count(setting.name) == 0 || ours.count(setting.name) > 0);  // the user's own setting wins
  }
  for (const HcaDecision& hca : plan.hcas) MUST(!hca.use.empty());
  MUST(plan.tasks.size() == step.tasks.size());
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const TaskPlan& task = plan.tasks[i];
    if (task.cpus) {
      MUST(!task.cpus->empty());
      MUST(!step.tasks[i].mask || task.cpus->is_subset_of(*step.tasks[i].mask));
    }
    for (const std::string& bdf : task.gpus) {
      bool known = false;
      for (const Gpu& gpu : node.gpus) known = known || gpu.bdf == bdf;
      MUST(known);
    }
  }
}

std::string settings_of(const Plan& plan) {
  std::string text;
  for (const EnvSetting& setting : plan.env) text += setting.name + "=" + setting.value + "\n";
  for (const TaskPlan& task : plan.tasks) {
    text += task.cpus ? task.cpus->list() : "-";
    for (const EnvSetting& setting : task.env) text += setting.name + "=" + setting.value + "\n";
  }
  return text;
}

void machine(std::string_view input) {
  const std::optional<Planned> planned = plan_of(input);
  if (!planned) return;
  MUST(from_bytes(to_bytes(planned->node)).has_value());
  check_plan(planned->node, planned->step, planned->plan);
  MUST(settings_of(make_plan(planned->node, planned->policy, planned->step)) == settings_of(planned->plan));
}

// A dump made of a dump is a dump again, and tells the same a second time.
void redump(std::string_view input) {
  const MemoryFile file(input);
  const Result<Root> root = Root::open(file.path());
  if (!root) return;
  const Result<std::string> text = write_dump(*root, {});
  if (!text) return;
  const MemoryFile second(*text);
  const Result<Root> again = Root::open(second.path());
  MUST(again.ok());
  MUST(read_node(*again, {}).gpus.size() == read_node(*root, {}).gpus.size());
}

// A topology file, and NCCL's own conf files, on a machine that has nothing else.
void files(std::string_view input) {
  const std::vector<std::string> parts = sections(input, 2);
  FileTree tree;
  tree.add("/sys/class/net/eth0/mtu", FileTree::Kind::file, "1500\n");
  tree.add("/etc/nccl.conf", FileTree::Kind::file, parts[0]);
  tree.add("/var/run/nvidia-topologyd/virtualTopology.xml", FileTree::Kind::file, parts[1]);
  const MemoryFile file(tree.text());
  const Result<Root> root = Root::open(file.path());
  MUST(root.ok());
  ReadOptions options;
  options.topology_files = Policy().topology_files();
  const Node node = read_node(*root, options);
  for (const ConfLine& line : node.nccl_conf) MUST(!line.name.empty() && line.name.size() < 1024);
  for (const TopologyFile& topology : node.topology_files)
    for (const TopologyFile::Device& device : topology.devices) MUST(!device.bdf.empty());
}

// What the plugin takes from the process that reads the facts for it.
void wire(std::string_view input) {
  const std::optional<Node> node = from_bytes(input);
  if (!node) return;
  const std::string bytes = to_bytes(*node);
  const std::optional<Node> again = from_bytes(bytes);
  MUST(again && to_bytes(*again) == bytes);
}

}  // namespace

std::optional<Planned> plan_of(std::string_view input) {
  const std::vector<std::string> parts = sections(input, 3);
  auto file = std::make_unique<MemoryFile>(parts[2]);
  Result<Root> root = Root::open(file->path());
  if (!root) return std::nullopt;
  Planned planned{std::move(file), *root, {}, {}, {}, {}};
  const unsigned shape = parts[0].empty() ? 0 : static_cast<unsigned char>(parts[0][0]);
  Step& step = planned.step;
  step.env = environment(parts[0]);
  step.step_gpus = value_of(step.env, "SLURM_STEP_GPUS");
  step.container = shape & 1;
  step.private_network = (shape & 3) == 3;
  step.sharp = shape & 4;
  step.torch = shape & 4;
  step.gpu_order = shape & 8 ? GpuOrder::minor : GpuOrder::pci;
  step.outside_slurm = shape & 16;
  step.local_tasks = 1 + (shape >> 5);
  step.node_address = "10.0.0.1";
  for (int i = 0; i < step.local_tasks; ++i) {
    Task task;
    task.local_id = i;
    task.env = step.env;
    task.mask = CpuSet::from_list(value_of(step.env, "MASK"));
    if (task.mask && task.mask->empty()) task.mask.reset();
    step.tasks.push_back(std::move(task));
  }
  if (Result<Policy> policy = parse_policy(parts[1], "p.yaml")) planned.policy = *policy;
  ReadOptions options;
  options.home = "/root";
  options.nccl_conf_file = value_of(step.env, "NCCL_CONF_FILE");
  options.probe = planned.policy.files();
  options.topology_files = planned.policy.topology_files();
  options.details = shape & 2;
  planned.node = read_node(planned.root, options);
  planned.plan = make_plan(planned.node, planned.policy, step);
  return planned;
}

std::string wire_of(const std::string& dump) {
  const Result<Root> root = Root::open(dump);
  return root ? to_bytes(read_node(*root, {})) : "";
}

void add_node_targets(std::vector<Target>& all) {
  for (const Target& target : {Target{"machine", machine, 1 << 20}, Target{"redump", redump, 1 << 20},
                               Target{"files", files, 65536}, Target{"wire", wire, 65536}})
    all.push_back(target);
}

}  // namespace fuzz
