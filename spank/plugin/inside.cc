// SPDX-License-Identifier: Apache-2.0
#include "plugin/inside.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "plugin/mark.h"

namespace nccltune {
namespace {

constexpr std::string_view kWord = "inside";
constexpr const char* kTopology = "NCCL_TOPO_FILE";

bool is_nccl(const std::string& name) { return name.compare(0, 5, "NCCL_") == 0; }

void compare(const Outside& outside, const Environment& env, InsideFindings& findings) {
  for (const auto& [name, value] : env) {
    if (!is_nccl(name) && outside.exported.count(name) == 0) continue;
    const auto ours = outside.exported.find(name);
    const auto before = outside.nccl.find(name);
    const std::string way = "; --container-env=" + name + " keeps ";
    if (ours != outside.exported.end()) {
      if (ours->second == value) continue;
      findings.overridden.insert(name);
      findings.lost.push_back(
          {name, "kept the image's '" + value + "'; the plan has '" + ours->second + "'" + way + "the plan's"});
    } else if (before == outside.nccl.end()) {
      findings.details.push_back({name, "'" + value + "' is the image's"});
    } else if (before->second != value) {
      findings.lost.push_back(
          {name, "the image's '" + value + "' hides the user's '" + before->second + "'" + way + "the user's"});
    }
  }
}

// NCCL says no more than one INFO line of a file that it cannot open (nccl src/graph/xml.cc).
void check_topology_file(const Outside& outside, const Environment& env, InsideFindings& findings) {
  const std::string file = value_of(env, kTopology);
  if (file.empty() || access(file.c_str(), R_OK) == 0) return;
  const bool ours = outside.exported.count(kTopology) > 0 && findings.overridden.count(kTopology) == 0;
  if (ours) findings.unreadable.insert(kTopology);
  findings.lost.push_back(
      {kTopology,
       std::string(ours ? "taken back: '" : "'") + file + "' cannot be read in the container: " + std::strerror(errno) +
           "; enroot's hooks.d/60-nccl-tune.sh mounts it, or --container-mounts=" + file + ":" + file + ":ro"});
}

// mpi_pmix names the server's folder, below SlurmdSpoolDir; nothing but enroot's own extra hook mounts it. Without it
// clients complain of gds_ds12_lock_pthread.c, or do not connect.
void check_pmix(const Environment& env, InsideFindings& findings) {
  const std::string folder = value_of(env, "PMIX_SERVER_TMPDIR");
  struct stat status {};
  if (folder.empty() || stat(folder.c_str(), &status) == 0) return;
  findings.lost.push_back({"PMIx", "'" + folder + "' is not in the container: " + std::strerror(errno) +
                                       "; copy enroot's extra hook 50-slurm-pmi.sh to its hooks.d on the nodes"});
}

}  // namespace

bool is_inside_entry(int count, char** words) {
  return count > 0 && words != nullptr && words[0] != nullptr && words[0] == kWord;
}

Outside state_outside(const Plan& plan, const TaskPlan& task, const std::set<std::string>& exported,
                      const Environment& env) {
  Outside outside;
  for (const auto* settings : {&task.env, &plan.env})
    for (const EnvSetting& setting : *settings)
      if (exported.count(setting.name) > 0) outside.exported.emplace(setting.name, setting.value);
  for (const auto& [name, value] : env)
    if (is_nccl(name)) outside.nccl.emplace(name, value);
  return outside;
}

InsideFindings look_inside(const Outside& outside, const Environment& env) {
  InsideFindings findings;
  compare(outside, env, findings);
  check_topology_file(outside, env, findings);
  check_pmix(env, findings);
  return findings;
}

void correct_env(spank_t spank, const Outside& outside, const InsideFindings& findings) {
  if (findings.overridden.empty() && findings.unreadable.empty()) return;
  for (const std::string& name : findings.unreadable) spank_unsetenv(spank, name.c_str());
  std::set<std::string> rest;
  for (const auto& [name, value] : outside.exported)
    if (findings.overridden.count(name) == 0 && findings.unreadable.count(name) == 0) rest.insert(name);
  if (rest.empty())
    spank_unsetenv(spank, kMark);
  else
    spank_setenv(spank, kMark, mark_of(rest).c_str(), 1);
}

}  // namespace nccltune
