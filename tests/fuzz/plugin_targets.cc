// SPDX-License-Identifier: Apache-2.0
// The whole plugin, linked in, under the fake SPANK host: every hook of a step, with the option, plugstack's words, the
// environment, the policy and the machine out of the input. task_init runs in this process, so its pin is undone.
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "base/text.h"
#include "fake/spank.h"
#include "fuzz/targets.h"
#include "plugin/mark.h"
#include "plugin/pin.h"

namespace fuzz {
namespace {

// One folder of this process: the policy has to be a file of its own, owned by root.
class Files {
 public:
  Files() : folder_("/dev/shm/nccl-tune-fuzz.XXXXXX") { MUST(mkdtemp(folder_.data()) != nullptr); }
  ~Files() {
    unlink(policy().c_str());
    unlink(machine().c_str());
    rmdir(folder_.c_str());
  }
  std::string policy() const { return folder_ + "/policy.yaml"; }
  std::string machine() const { return folder_ + "/machine.dump"; }
  void write(const std::string& path, const std::string& text) const { std::ofstream(path) << text; }

 private:
  std::string folder_;
};

const Files& files() {
  static const Files one;
  return one;
}

int call(spank_f* hook, const char* name, std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  fake::host().hook = name;
  return hook(reinterpret_cast<spank_t>(&fake::host()), static_cast<int>(argv.size()), argv.data());
}

void take_environment(const std::string& text, fake::Host& host) {
  for (std::string_view line : nccltune::split_lines(text)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0)
      host.odd_entries.emplace_back(line);
    else
      host.env.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
}

void check(const fake::Environment& before) {
  const fake::Host& host = fake::host();
  MUST(host.misuse.empty());
  for (const fake::LogLine& line : host.log) MUST(is_one_line(line.text) && line.text.starts_with("nccl-tune: "));
  const std::set<std::string> ours = nccltune::marked_names(before);
  for (const auto& [name, value] : before) {
    if (ours.count(name) > 0 || name == nccltune::kMark) continue;
    const auto after = host.env.find(name);
    MUST(after != host.env.end() && after->second == value);  // the user's own setting wins
  }
  for (const auto& [name, value] : host.env)
    if (before.count(name) == 0) MUST(!value.empty() && nccltune::is_settable_name(name));
}

// Sections: option, a word of plugstack.conf, environment, policy, machine. The option's first byte sets the step.
void plugin(std::string_view input) {
  std::vector<std::string> parts = sections(input, 5);
  fake::Host& host = fake::host();
  host = fake::Host{};
  files().write(files().policy(), parts[3]);
  files().write(files().machine(), parts[4]);
  std::vector<std::string> words{"policy=" + files().policy(), parts[1], "root=" + files().machine()};
  std::vector<std::string> inside{"inside"};
  take_environment(parts[2], host);
  const unsigned shape = parts[2].size() + parts[1].size();
  host.step_id = shape % 17 == 16 ? 0xfffffffb : shape % 5;
  host.local_tasks = shape % 13 == 12 ? 0xffffffff : 1 + shape % 8;
  const fake::Environment before = host.env;
  const auto mask = nccltune::current_mask();

  MUST(call(slurm_spank_init, "slurm_spank_init", words) == 0);
  MUST(call(slurm_spank_init, "slurm_spank_init", inside) == 0);
  MUST(host.options.size() == 1);
  for (int i = 0; i < 2; ++i) MUST(host.options[0].cb(host.options[0].val, parts[0].c_str(), 1) == 0);
  MUST(call(slurm_spank_user_init, "slurm_spank_user_init", words) == 0);
  for (int task : {0, static_cast<int>(shape % 8)}) {
    host.env = before;
    host.task_id = task;
    const int rc = call(slurm_spank_task_init, "slurm_spank_task_init", words);
    MUST(rc == 0 || (rc == -1 && parts[0].find("strict") != std::string::npos));
    check(before);
    MUST(call(slurm_spank_task_init, "slurm_spank_task_init", inside) == 0);
    if (mask) nccltune::set_mask(*mask);
    syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0UL);
  }
  host.task_id.reset();
  MUST(call(slurm_spank_exit, "slurm_spank_exit", words) == 0);
}

}  // namespace

void add_plugin_targets(std::vector<Target>& all) { all.push_back({"plugin", plugin, 1 << 20}); }

}  // namespace fuzz
