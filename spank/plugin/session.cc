// SPDX-License-Identifier: Apache-2.0
#include "plugin/session.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "plugin/apply.h"
#include "plugin/gather.h"
#include "plugin/guard.h"
#include "plugin/mark.h"
#include "plugin/report.h"

namespace nccltune {
namespace {

constexpr const char* kDefaultPolicy = NCCLTUNE_SYSCONFDIR "/nccl-tune.yaml";
constexpr const char* kUserDefault = "NCCLTUNE";
// Where Slurm's clients look for an option of this name that the command line does not have, and how sbatch and salloc
// hand one to the srun of their job: so a value put there travels every way that the option itself does, also with
// --export=NONE (src/common/spank.c: spank_process_env_options).
constexpr const char* kOptionVariable = "SLURM_SPANK__SLURM_SPANK_OPTION_nccl_tune_nccl_tune";

bool is_absent(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) != 0 && errno == ENOENT;
}

ReadOptions read_options(const Policy& policy, const Environment& env) {
  ReadOptions options;
  options.home = value_of(env, "HOME");
  options.nccl_conf_file = value_of(env, "NCCL_CONF_FILE");
  options.probe = policy.files();
  options.topology_files = policy.topology_files();
  options.details = false;
  return options;
}

}  // namespace

Session::Session(bool remote, const ParsedArguments& parsed)
    : remote_(remote), pid_(getpid()), arguments_(parsed.arguments) {
  options_.action = arguments_.on_by_default ? Options::Action::on : Options::Action::off;
  if (!parsed.errors.empty()) fault.keep(parsed.errors.front().text().c_str());
}

void Session::look_around(spank_t spank) {
  if (remote_) {
    container_ = container_request(spank);
    return;
  }
  const char* value = std::getenv(kUserDefault);
  if (value == nullptr || *value == '\0') return;
  // An option of the job beats the variable; an earlier value of the variable (of sbatch's time) does not.
  const char* job = std::getenv(kOptionVariable);
  if (job != nullptr && !is_from_variable(job)) return;
  setenv(kOptionVariable, (std::string(kFromVariable) + "," + value).c_str(), 1);
}

int Session::take_option(const char* argument) {
  ParsedOptions parsed = parse_options(argument);
  option_ = options_ = std::move(parsed.options);
  if (!parsed.error) return 0;
  if (!remote_) {
    tell_error(parsed.error->text());
    return kFail;
  }
  // The client let it pass, so its plugin is another version: the keys that are known here still count.
  fault.keep(parsed.error->text().c_str());
  return 0;
}

bool Session::active() const { return options_.action != Options::Action::off; }

Policy Session::site_policy() {
  const bool chosen = !arguments_.policy.empty();
  const std::string file = chosen ? arguments_.policy : kDefaultPolicy;
  const std::string drop_in = drop_in_of(file);
  if (!chosen && is_absent(file) && is_absent(drop_in)) {
    quiet_notices_.push_back(file + ": not there; the built-in rules alone make the plan");
    return {};
  }
  Policy policy = load_what_stands(file, drop_in);
  // One fault is told; the others show in nccl-tune plan.
  if (!policy.left_out.empty())
    fault.keep((policy.left_out.front().text() + (policy.sources.empty() ? "; the built-in rules alone make the plan"
                                                                         : "; left out, the rest of the policy stands"))
                   .c_str());
  return policy;
}

void Session::check_profile(const Policy& policy) {
  if (options_.profile.empty()) return;
  std::string known;
  for (const Profile& profile : policy.profiles) {
    if (profile.name == options_.profile) return;
    known += (known.empty() ? "" : ", ") + profile.name;
  }
  const Error error{"--nccl-tune", "no profile '" + options_.profile + "' on this node", "",
                    known.empty() ? "" : "known: " + known};
  fault.keep(error.text().c_str());
}

// The policy file is read at every step, so `mode` there is the switch that an administrator can throw at once; a job
// cannot ask for more than it allows.
void Session::obey_policy_mode(const Policy& policy) {
  if (policy.mode == Mode::on || options_.action == Options::Action::show) return;
  options_.action = policy.mode == Mode::off ? Options::Action::off : Options::Action::show;
  if (asked() && policy.mode == Mode::off)
    notices_.emplace_back("the site's policy says 'mode: off'; nothing is tuned");
}

void Session::plan_the_node(spank_t spank) {
  if (!active() || !is_ordinary_step(spank)) return;
  Policy policy = site_policy();
  obey_policy_mode(policy);
  if (!active()) return;
  check_profile(policy);
  const Environment env = job_environment(spank);
  Step step = ask_step(spank, env, options_, arguments_, container_);
  Result<Facts> facts = gather_facts({arguments_.root, read_options(policy, step.env), step.node_name});
  if (!facts) {
    fault.keep(facts.error().text().c_str());
    return;
  }
  Node& node = facts->node;
  step.node_address = facts->node_address;
  Plan plan = plan_node(node, policy, step);
  if (node.gpus.empty() && plan.env.empty())
    notices_.push_back(arguments_.root + "/sys" + ": no GPU, HCA or interface to be seen; nothing is tuned");
  prepared_ = Prepared{std::move(node), std::move(policy), std::move(step), std::move(plan)};
  tell_detail(summary_line(prepared_->plan, prepared_->node, prepared_->step));
  for (const std::string& line : reason_lines(prepared_->plan)) tell_detail(line);
}

void Session::tune_task(spank_t spank) {
  node_fault_ = fault.kept();
  if (!is_ordinary_step(spank)) return;
  const Environment env = job_environment(spank);
  const std::set<std::string> marked = marked_names(env);
  if (local_task_id(spank) == 0) tell_node(spank);
  if (!active()) {
    if (env.count(kMark) > 0) unset_marked(spank, marked);
    return;
  }
  if (!prepared_) return;
  Applied applied;
  const TaskPlan task = tune(spank, env, marked, applied);
  tell_task(task, applied.notes);
  if (container_.image) outside_ = state_outside(prepared_->plan, task, applied.set, job_environment(spank));
  if (applied.error) fault.keep(applied.error->text().c_str());
}

int Session::finish_task(spank_t spank) {
  if (!fault.kept() || !is_ordinary_step(spank)) return 0;
  if (!node_fault_ || local_task_id(spank) == 0) tell_fault();
  return active() && options_.strict ? kFail : 0;
}

void Session::look_inside_container(spank_t spank) const {
  if (!outside_) return;
  const InsideFindings findings = look_inside(*outside_, job_environment(spank));
  correct_env(spank, *outside_, findings);
  // The image is the same in all tasks: said once a step.
  if (local_task_id(spank) != 0) return;
  const bool tell = loud() || (asked() && node_id(spank) == 0);
  for (const Note& note : findings.lost) tell ? tell_user(note_line(note)) : tell_detail(note_line(note));
  for (const Note& note : findings.details) loud() ? tell_user(note_line(note)) : tell_detail(note_line(note));
}

bool Session::in_task_process() const noexcept { return getpid() != pid_; }

TaskPlan Session::tune(spank_t spank, const Environment& env, const std::set<std::string>& marked,
                       Applied& applied) const {
  const Task task = ask_task(spank, env, prepared_->node, arguments_.root);
  TaskPlan plan = plan_task(prepared_->node, prepared_->plan, prepared_->policy, prepared_->step, task);
  if (options_.action == Options::Action::show) return plan;
  if (options_.exports())
    export_env(spank, prepared_->plan, plan, marked, applied);
  else if (!marked.empty())
    unset_marked(spank, marked);
  if (options_.pins()) pin(plan, task.mask, applied);
  return plan;
}

// The tasks are forks of one process and share nothing that they could count in: what concerns the node is told by the
// first of them.
void Session::tell_node(spank_t spank) const {
  for (const std::string& notice : notices_) asked() ? tell_user(notice) : tell_admin(notice);
  for (const std::string& notice : quiet_notices_) options_.verbose ? tell_user(notice) : tell_admin(notice);
  if (!prepared_) return;
  if (loud()) {
    tell_user(summary_line(prepared_->plan, prepared_->node, prepared_->step));
    for (const std::string& line : reason_lines(prepared_->plan)) tell_user(line);
  } else if (asked() && node_id(spank) == 0) {
    // The user's values are the same on all nodes: said once a step.
    for (const std::string& line : kept_lines(prepared_->plan, prepared_->step)) tell_user(line);
  }
}

void Session::tell_task(const TaskPlan& task, const std::vector<Note>& notes) const {
  Lines lines = task_lines(task);
  for (const Note& note : notes) lines.push_back(note_line(note));
  for (const std::string& line : lines) loud() ? tell_user(line) : tell_detail(line);
}

// A job that did not ask (default=on) does not get our troubles on its stderr. Straight from the buffer: the fault may
// be that there is no memory.
void Session::tell_fault() {
  if (asked())
    slurm_error("nccl-tune: %s", fault.text());
  else
    slurm_info("nccl-tune: %s", fault.text());
}

void tell_bad_arguments(const ParsedArguments& parsed) {
  for (const Error& error : parsed.errors) tell_error(error.text());
}

}  // namespace nccltune
