// SPDX-License-Identifier: Apache-2.0
#include "fake/walk.h"

#include <dlfcn.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "plugin/pin.h"

namespace fake {
namespace {

constexpr uint32_t kBatchStep = 0xfffffffb;  // slurm.h: SLURM_BATCH_SCRIPT
constexpr const char* kOptionVariable = "SLURM_SPANK__SLURM_SPANK_OPTION_nccl_tune_nccl_tune";

// What a task's process has to say, as strings with their length before them.
class Wire {
 public:
  void put(const std::string& text) {
    const uint32_t size = text.size();
    bytes_.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
  }
  void put(int number) { put(std::to_string(number)); }
  std::string get() {
    uint32_t size = 0;
    if (bytes_.size() - at_ < sizeof size) throw std::runtime_error("a task's process said too little");
    std::memcpy(&size, bytes_.data() + at_, sizeof size);
    at_ += sizeof size;
    std::string text = bytes_.substr(at_, size);
    at_ += size;
    return text;
  }
  int get_number() { return std::stoi(get()); }

  void write_to(int fd) const {
    for (std::size_t done = 0; done < bytes_.size();) {
      const ssize_t n = ::write(fd, bytes_.data() + done, bytes_.size() - done);
      if (n <= 0) return;
      done += n;
    }
  }
  static Wire read_from(int fd) {
    Wire wire;
    std::array<char, 65536> chunk;
    for (ssize_t n; (n = ::read(fd, chunk.data(), chunk.size())) > 0;) wire.bytes_.append(chunk.data(), n);
    return wire;
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

void arm(const StepRequest& request, const std::string& hook) {
  const bool here = request.in_hook == hook;
  host().throws = here ? request.throws : "";
  host().throws_int = here ? request.throws_int : "";
  host().fails = here ? request.fails : "";
}

void disarm() {
  host().throws.clear();
  host().throws_int.clear();
  host().fails.clear();
}

// The plugin's second entry, where the stack has one.
void call_inside(const Plugin& plugin, const StepRequest& request, const std::string& hook) {
  if (request.image && plugin.call(hook, {"inside"}) != 0) throw std::runtime_error(hook + " failed after pyxis");
}

// In the task's process: the hooks, then a report of the state that the task would start in.
Wire task_process(const Plugin& plugin, const StepRequest& request, int local_id) {
  Host& h = host();
  h.log.clear();
  h.task_id = local_id;
  for (const auto& [name, value] : request.tasks[local_id]) h.env[name] = value;
  plugin.call("slurm_spank_task_init_privileged", request.words);
  arm(request, "slurm_spank_task_init");
  const int rc = plugin.call("slurm_spank_task_init", request.words);
  disarm();
  if (request.image)
    for (const auto& [name, value] : *request.image) h.env[name] = value;
  call_inside(plugin, request, "slurm_spank_task_init");
  Wire wire;
  wire.put(rc);
  const auto mask = nccltune::current_mask();
  wire.put(mask ? mask->list() : "unknown");
  int mode = -1;
  std::array<unsigned long, 64> nodes{};
  syscall(SYS_get_mempolicy, &mode, nodes.data(), nodes.size() * 64, nullptr, 0UL);
  wire.put(mode);
  nccltune::CpuSet set;
  for (std::size_t i = 0; i < nodes.size() * 64; ++i)
    if (nodes[i / 64] >> (i % 64) & 1) set.add(i);
  wire.put(set.list());
  wire.put(h.env.size());
  for (const auto& [name, value] : h.env) wire.put(name), wire.put(value);
  wire.put(h.misuse.size());
  for (const std::string& what : h.misuse) wire.put(what);
  return wire;
}

TaskOutcome run_task(const Plugin& plugin, const StepRequest& request, int local_id) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("pipe");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> log(std::tmpfile(), std::fclose);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    host().log_file = fileno(log.get());
    task_process(plugin, request, local_id).write_to(ends[1]);
    _exit(0);  // as the task's exec would: nothing of the parent's is ended twice
  }
  close(ends[1]);
  Wire wire = Wire::read_from(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  TaskOutcome outcome;
  outcome.log = read_log(fileno(log.get()));
  outcome.ended = WIFEXITED(status) && WEXITSTATUS(status) == 1;
  outcome.died = !WIFEXITED(status) || WEXITSTATUS(status) > 1;
  if (outcome.ended || outcome.died) return outcome;
  outcome.rc = wire.get_number();
  outcome.cpus = wire.get();
  outcome.memory_mode = wire.get_number();
  outcome.memory_nodes = wire.get();
  for (int n = wire.get_number(); n > 0; --n) {
    std::string name = wire.get();
    outcome.env[name] = wire.get();
  }
  for (int n = wire.get_number(); n > 0; --n) host().misuse.push_back(wire.get());
  return outcome;
}

void call_options(const Plugin& plugin, const StepRequest& request, StepOutcome& outcome) {
  if (!request.with_option) return;
  arm(request, "option");
  const bool batch = request.step_id == kBatchStep;
  // The launch message; the batch step has none. A bare option is NULL there and "" in the environment.
  if (!batch) outcome.option = plugin.call_option(request.argument ? request.argument->c_str() : nullptr, true);
  if (batch || request.release == Release::v22_05)
    outcome.option = plugin.call_option(request.argument.value_or("").c_str(), true);
  disarm();
}

}  // namespace

Plugin::Plugin() {
  const char* path = std::getenv("NCCLTUNE_PLUGIN");
  if (path == nullptr) throw std::runtime_error("NCCLTUNE_PLUGIN is not set: the built nccl_tune.so");
  handle_ = dlopen(path, RTLD_LAZY);
  if (handle_ == nullptr) throw std::runtime_error(dlerror());
  const char* type = static_cast<const char*>(dlsym(handle_, "plugin_type"));
  const void* version = dlsym(handle_, "plugin_version");
  if (dlsym(handle_, "plugin_name") == nullptr || type == nullptr || version == nullptr)
    throw std::runtime_error("plugin_name, plugin_type or plugin_version is missing");
  if (std::string(type) != "spank") throw std::runtime_error("plugin_type is not spank");
  // Slurm compares the release series alone (src/common/plugin.c).
  if ((*static_cast<const unsigned*>(version) & 0xffff00) != (SLURM_VERSION_NUMBER & 0xffff00))
    throw std::runtime_error("plugin_version is of another release");
}

Plugin::~Plugin() { dlclose(handle_); }

bool Plugin::has(const std::string& hook) const { return dlsym(handle_, hook.c_str()) != nullptr; }

int Plugin::call(const std::string& hook, const std::vector<std::string>& words) const {
  auto* function = reinterpret_cast<spank_f*>(dlsym(handle_, hook.c_str()));
  if (function == nullptr) return 0;
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  host().hook = hook;
  // The handle is opaque to a plugin; ours only has to be no null pointer.
  const int rc = function(reinterpret_cast<spank_t>(&host()), words.size(), argv.data());
  host().hook.clear();
  return rc;
}

int Plugin::call_option(const char* argument, bool remote) const {
  if (host().options.empty()) throw std::runtime_error("no option was registered");
  const spank_option& option = host().options.back();
  return option.cb(option.val, argument, remote ? 1 : 0);
}

StepOutcome run_step(const Plugin& plugin, const StepRequest& request) {
  Host& h = host();
  h = Host{};
  h.env = request.env;
  h.env.insert(request.only_init.begin(), request.only_init.end());
  h.step_id = request.step_id;
  h.node_id = request.node_id;
  h.local_tasks = request.tasks.size();
  StepOutcome outcome;
  arm(request, "slurm_spank_init");
  outcome.init = plugin.call("slurm_spank_init", request.words);
  disarm();
  call_inside(plugin, request, "slurm_spank_init");
  if (!h.options.empty()) call_options(plugin, request, outcome);
  for (const auto& entry : request.only_init) h.env.erase(entry.first);
  plugin.call("slurm_spank_init_post_opt", request.words);
  arm(request, "slurm_spank_user_init");
  outcome.user_init = plugin.call("slurm_spank_user_init", request.words);
  disarm();
  call_inside(plugin, request, "slurm_spank_user_init");
  outcome.env = h.env;
  if (request.after_user_init) request.after_user_init();
  for (std::size_t i = 0; i < request.tasks.size(); ++i) outcome.tasks.push_back(run_task(plugin, request, i));
  outcome.exit = plugin.call("slurm_spank_exit", request.words);
  call_inside(plugin, request, "slurm_spank_exit");
  outcome.log = h.log;
  outcome.misuse = h.misuse;
  return outcome;
}

ClientOutcome run_client(const Plugin& plugin, spank_context_t context,
                         const std::vector<std::optional<std::string>>& arguments) {
  Host& h = host();
  h = Host{};
  h.context = context;
  ClientOutcome outcome;
  outcome.init = plugin.call("slurm_spank_init", {});
  if (const char* inherited = std::getenv(kOptionVariable)) {
    outcome.forwarded = inherited;
    outcome.option = plugin.call_option(inherited, false);
  }
  for (const auto& argument : arguments) {
    if (outcome.option != 0) break;  // the client ends at the first refusal
    outcome.option = plugin.call_option(argument ? argument->c_str() : nullptr, false);
  }
  plugin.call("slurm_spank_init_post_opt", {});
  plugin.call("slurm_spank_exit", {});
  outcome.log = h.log;
  return outcome;
}

}  // namespace fake
