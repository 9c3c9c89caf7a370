// SPDX-License-Identifier: Apache-2.0
#include "plugin/ask.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "plugin/mark.h"
#include "plugin/pin.h"

namespace nccltune {
namespace {

constexpr std::size_t kMaxEntries = 65536;
constexpr uint32_t kFirstSpecialStep = 0xfffffffa;  // slurm.h: SLURM_INTERACTIVE_STEP; batch, extern, pending lie above

template <class T>
std::optional<T> item(spank_t spank, spank_item_t which) {
  T value{};
  if (spank_get_item(spank, which, &value) != 0) return std::nullopt;
  return value;
}

// A variable of the job, cut to the buffer: it is only looked at for a word.
std::optional<std::string> job_variable(spank_t spank, const char* name) {
  std::array<char, 4096> value{};
  const int rc = spank_getenv(spank, name, value.data(), value.size());
  if (rc != ESPANK_SUCCESS && rc != ESPANK_NOSPACE) return std::nullopt;
  value.back() = '\0';  // a cut value may come without its end
  return std::string(value.data());
}

bool is_set(spank_t spank, const char* name) {
  const std::optional<std::string> value = job_variable(spank, name);
  return value && !value->empty();
}

// SLURM_TOPOLOGY_ADDR ends in the node's name; its pattern ("switch.switch.node") says how many parts come before, as a
// node's name may hold a dot itself.
std::string name_from_topology(std::string address, const std::string& pattern) {
  for (auto parts = std::count(pattern.begin(), pattern.end(), '.'); parts > 0; --parts) {
    const std::size_t dot = address.find('.');
    if (dot == std::string::npos) break;
    address.erase(0, dot + 1);
  }
  return address;
}

std::string short_host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  const std::string_view whole(name.data());
  return std::string(whole.substr(0, whole.find('.')));
}

}  // namespace

bool is_ordinary_step(spank_t spank) {
  const auto step = item<uint32_t>(spank, S_JOB_STEPID);
  return step && *step < kFirstSpecialStep;
}

Environment job_environment(spank_t spank) {
  Environment env;
  const auto entries = item<char**>(spank, S_JOB_ENV);
  if (!entries || *entries == nullptr) return env;
  for (std::size_t i = 0; i < kMaxEntries && (*entries)[i] != nullptr; ++i) {
    const std::string_view entry((*entries)[i]);
    const std::size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    // The first of two entries wins, as in getenv(3).
    env.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return env;
}

ContainerRequest container_request(spank_t spank) {
  ContainerRequest request;
  // pyxis' own options, then the variables that it reads since 0.21.
  for (const char* name : {"_SLURM_SPANK_OPTION_pyxis_container_image", "_SLURM_SPANK_OPTION_pyxis_container_name",
                           "PYXIS_CONTAINER_IMAGE", "PYXIS_CONTAINER_NAME"})
    request.image = request.image || is_set(spank, name);
  for (const char* name : {"_SLURM_SPANK_OPTION_pyxis_container_unshare", "PYXIS_CONTAINER_UNSHARE"}) {
    const std::optional<std::string> value = job_variable(spank, name);
    if (value && ("," + *value + ",").find(",net,") != std::string::npos) request.private_network = true;
  }
  request.private_network = request.private_network && request.image;
  return request;
}

std::string node_name(const Environment& env) {
  // slurmstepd writes its topology address before user_init, over what the job brought along. SLURMD_NODENAME comes
  // only with task_init: until then a step inside a batch job has the one of the batch script's node.
  std::string name =
      name_from_topology(value_of(env, "SLURM_TOPOLOGY_ADDR"), value_of(env, "SLURM_TOPOLOGY_ADDR_PATTERN"));
  if (name.empty()) name = value_of(env, "SLURMD_NODENAME");
  return name.empty() ? short_host_name() : name;
}

Step ask_step(spank_t spank, const Environment& env, const Options& options, const Arguments& arguments,
              const ContainerRequest& container) {
  Step step;
  step.node_name = node_name(env);
  step.env = without_marked(env);
  step.step_gpus = value_of(env, "SLURM_STEP_GPUS");
  step.local_tasks = local_task_count(spank);
  step.gpu_order = arguments.gpu_order;
  step.container = container.image;
  step.private_network = container.private_network;
  step.sharp = options.sharp;
  step.torch = options.torch;
  step.profile = options.profile;
  step.bind = options.pins() || options.action == Options::Action::show;
  return step;
}

Task ask_task(spank_t spank, const Environment& env, const Node& node, const std::string& root) {
  Task task;
  task.local_id = local_task_id(spank);
  task.mask = current_mask();
  task.env = without_marked(env);
  task.openable_minors = openable_minors(node, root);
  return task;
}

std::optional<std::set<int>> openable_minors(const Node& node, const std::string& root) {
  std::set<int> openable;
  bool asked = false;
  for (const Gpu& gpu : node.gpus) {
    if (!gpu.minor) continue;
    // task_init runs with the user's real uid, which is what access(2) goes by.
    if (access((root + "/dev/nvidia" + std::to_string(*gpu.minor)).c_str(), R_OK | W_OK) == 0) {
      openable.insert(*gpu.minor);
    } else if (errno == ENOENT || errno == ENOTDIR) {
      continue;
    }
    asked = true;
  }
  if (!asked) return std::nullopt;
  return openable;
}

int local_task_id(spank_t spank) { return item<int>(spank, S_TASK_ID).value_or(0); }

uint32_t node_id(spank_t spank) { return item<uint32_t>(spank, S_JOB_NODEID).value_or(0); }

int local_task_count(spank_t spank) {
  const uint32_t count = item<uint32_t>(spank, S_JOB_LOCAL_TASK_COUNT).value_or(1);
  return static_cast<int>(std::clamp<uint32_t>(count, 1, 65536));
}

}  // namespace nccltune
