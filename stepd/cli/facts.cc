// SPDX-License-Identifier: Apache-2.0
#include "cli/facts.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <iterator>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/live_step.h"
#include "cli/output.h"
#include "node/read.h"

namespace nccltune::cli {

namespace {

constexpr const char* kPolicyFile = NCCLTUNE_SYSCONFDIR "/nccl-tune.yaml";
constexpr int kMostTasks = 4096;  // on a node

// The policy of the source tree that this program was built in: BUILD/nccl-tune, BUILD/../etc/nccl-tune.yaml.
// "" when the program is not in such a place.
std::string policy_beside_program() {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0 || n == static_cast<ssize_t>(sizeof path)) return "";
  std::string folder(path, static_cast<size_t>(n));
  for (int up = 0; up < 2; ++up) folder.erase(std::min(folder.rfind('/'), folder.size()));
  std::string file = folder + "/etc/nccl-tune.yaml";
  return access((folder + "/spank/policy/policy.h").c_str(), R_OK) == 0 && access(file.c_str(), R_OK) == 0 ? file : "";
}

// The tree's own policy is as much to be trusted as the program beside it, whoever owns the tree: no check of owners.
Result<Policy> read_tree_policy(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return parse_policy(text, file);
}

Result<Policy> open_policy(const FactsOptions& options, std::vector<Note>& notes) {
  if (!options.policy.empty()) return load_policy(options.policy, drop_in_of(options.policy));
  if (access(kPolicyFile, F_OK) == 0 || access(drop_in_of(kPolicyFile).c_str(), F_OK) == 0)
    return load_policy(kPolicyFile, drop_in_of(kPolicyFile));
  if (std::string file = policy_beside_program(); !file.empty()) {
    notes.push_back({kPolicyFile, "absent: the policy of the source tree is used, " + file});
    return read_tree_policy(file);
  }
  notes.push_back({kPolicyFile, "absent: no platform profile applies"});
  return Policy{};
}

Result<std::vector<CpuSet>> parse_masks(const std::vector<std::string>& lists) {
  std::vector<CpuSet> masks;
  for (const std::string& list : lists) {
    auto cpus = CpuSet::from_list(list);
    if (!cpus || cpus->empty())
      return Error{.object = "--task-cpus",
                   .what = "'" + list + "' is not a list of CPUs",
                   .remedy = "write it as in 0-15,64-79"};
    masks.push_back(*cpus);
  }
  return masks;
}

// How many tasks to plan for: as asked, else one for each CPU list, else one for each GPU.
Result<int> count_tasks(const FactsOptions& options, size_t masks, size_t gpus) {
  if (options.tasks.empty()) return static_cast<int>(std::max<size_t>(1, masks ? masks : gpus));
  auto tasks = parse_int(options.tasks, 1, kMostTasks);
  if (!tasks)
    return Error{.object = "--tasks",
                 .what = "'" + options.tasks + "' is not a number of tasks from 1 to " + std::to_string(kMostTasks)};
  if (masks > static_cast<size_t>(*tasks))
    return Error{.object = "--task-cpus",
                 .what = "given " + std::to_string(masks) + " times for " + options.tasks + " tasks"};
  return static_cast<int>(*tasks);
}

Result<Step> make_step(const FactsOptions& options, const Node& node, Environment env) {
  auto masks = parse_masks(options.task_cpus);
  if (!masks) return masks.error();
  auto tasks = count_tasks(options, masks->size(), node.gpus.size());
  if (!tasks) return tasks.error();
  Step step;
  step.outside_slurm = true;
  step.local_tasks = *tasks;
  step.env = without_ours(std::move(env));
  for (int i = 0; i < *tasks; ++i) {
    Task task{.local_id = i, .env = step.env};
    if (static_cast<size_t>(i) < masks->size()) task.mask = (*masks)[static_cast<size_t>(i)];
    step.tasks.push_back(std::move(task));
  }
  return step;
}

Result<Root> open_root(const FactsOptions& options) {
  if (options.root.empty()) return Root();
  auto root = Root::open(options.root);
  if (!root) return root;
  if (!root->is_directory("/sys") && !root->is_directory("/proc"))
    return Error{.object = options.root,
                 .what = "not a recorded machine: holds neither sys nor proc",
                 .remedy = "give a folder that has them or a file of 'nccl-tune dump'"};
  return root;
}

std::string value_of(const Environment& env, const char* name) {
  auto it = env.find(name);
  return it == env.end() ? "" : it->second;
}

std::optional<Error> check_profile(const std::string& name, const Policy& policy) {
  std::vector<std::string> known;
  for (const Profile& profile : policy.profiles) known.push_back(profile.name);
  if (name.empty() || std::count(known.begin(), known.end(), name)) return std::nullopt;
  std::string near = nearest_word(name, known);
  return Error{.object = "--profile",
               .what = "the policy has no profile '" + name + "'",
               .remedy = near.empty() ? known.empty() ? "it has none" : "it has " + join(known, ", ")
                                      : "did you mean '" + near + "'?"};
}

}  // namespace

void add_root_option(CLI::App& app, FactsOptions& options) {
  app.add_option("--root", options.root,
                 "read this recorded machine: a folder with sys and proc, or a file that dump wrote")
      ->type_name("DIR|FILE");
}

void add_policy_options(CLI::App& app, FactsOptions& options) {
  app.add_option("--policy", options.policy, "policy file in place of " + std::string(kPolicyFile))->type_name("FILE");
  app.add_option("--profile", options.profile, "take this profile of the policy, whatever matches")->type_name("NAME");
}

void add_step_options(CLI::App& app, FactsOptions& options) {
  app.add_option("--tasks", options.tasks, "tasks on the node: N tasks take a GPU each, in PCI order; 1 takes all")
      ->type_name("N");
  app.add_option("--task-cpus", options.task_cpus, "CPUs that Slurm would give to task 0; again for task 1, 2, ...")
      ->type_name("LIST")
      ->allow_extra_args(false);
  app.add_option("--env", options.env, "a variable that the job has set; may be given again")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

Result<Environment> environment_of(const FactsOptions& options) {
  Environment env = options.root.empty() ? environment_of_process() : Environment{};
  for (const std::string& text : options.env) {
    size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      return Error{.object = "--env", .what = "'" + text + "' is not NAME=VALUE"};
    env[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return env;
}

Result<Source> open_source(const FactsOptions& options) {
  Source source;
  auto root = open_root(options);
  if (!root) return root.error();
  source.root = *root;
  auto policy = open_policy(options, source.notes);
  if (!policy) return policy.error();
  source.policy = *policy;
  for (const Error& fault : source.policy.left_out)
    source.notes.push_back({fault.object, fault.what + (fault.reason.empty() ? "" : ": " + fault.reason) +
                                              (fault.remedy.empty() ? "" : "; " + fault.remedy) +
                                              "; left out, the rest of the policy stands"});
  if (auto error = check_profile(options.profile, source.policy)) return *error;
  if (source.policy.mode != Mode::on)
    source.notes.push_back({source.policy.sources.empty() ? kPolicyFile : source.policy.sources.front(),
                            source.policy.mode == Mode::off
                                ? "'mode: off': the plugin leaves every step alone"
                                : "'mode: show': the plugin tells its plan and applies nothing"});
  auto env = environment_of(options);
  if (!env) return env.error();
  source.env = *env;
  const bool live = source.root.live();
  source.read.home = live ? value_of(source.env, "HOME") : "";
  source.read.nccl_conf_file = value_of(source.env, "NCCL_CONF_FILE");
  source.read.probe = source.policy.files();
  source.read.topology_files = source.policy.topology_files();
  source.read.probe_access = live;
  return source;
}

Result<Facts> gather(const FactsOptions& options) {
  auto source = open_source(options);
  if (!source) return source.error();
  Facts facts{.root = source->root, .policy = source->policy, .notes = source->notes};
  facts.node = read_node(facts.root, source->read);
  const bool asked = !options.tasks.empty() || !options.task_cpus.empty();
  if (facts.root.live() && !asked && in_slurm_task(source->env)) {
    facts.step = slurm_step(source->env, facts.node);
  } else {
    auto step = make_step(options, facts.node, source->env);
    if (!step) return step.error();
    facts.step = *step;
  }
  facts.step.profile = options.profile;
  return facts;
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    return finish(app.help());
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    if (!what.empty()) what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
    while (what.ends_with(' ') || what.ends_with('.')) what.pop_back();
    say({.object = argv[0], .what = what, .remedy = "see 'nccl-tune " + std::string(argv[0]) + " --help'"});
    return exit_usage;
  }
}

}  // namespace nccltune::cli
