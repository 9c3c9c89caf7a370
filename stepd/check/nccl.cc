// SPDX-License-Identifier: Apache-2.0
// What NCCL itself will read and load.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/text.h"
#include "check/finding.h"
#include "check/health.h"
#include "policy/lint.h"

namespace nccltune::check {

namespace {

// NCCL 2.9 and newer: major * 10000 + minor * 100 + patch.
std::string version_text(int code) { return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100); }

// The version of the library that a program of this environment would load; 0: it does not tell. Absent: there is none.
// It is left open: NCCL is not made to be unloaded.
std::optional<int> library_version() {
  void* handle = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (!handle) return std::nullopt;
  auto get_version = reinterpret_cast<int (*)(int*)>(dlsym(handle, "ncclGetVersion"));
  int code = 0;
  return get_version && get_version(&code) == 0 ? code : 0;
}

}  // namespace

std::string library_text(const Subject& subject) {
  const int code = subject.live() ? library_version().value_or(0) : 0;
  return code == 0 ? "" : version_text(code);
}

namespace {

void library(const Subject& subject, Report& report) {
  if (!subject.live()) {
    report.skip("libnccl.so.2", "not on a recorded machine");
    return;
  }
  const auto found = library_version();
  if (!found) {
    report.skip("libnccl.so.2", "not on the library path of this process");
    return;
  }
  const int code = *found;
  if (code == 0) {
    report.warn("libnccl.so.2", "does not tell its version", "2.21 or newer", "look at LD_LIBRARY_PATH");
  } else if (code < 22100) {
    report.warn("libnccl.so.2", version_text(code), "2.21 or newer: older ones do not find the GID row by themselves",
                "install a newer NCCL");
  } else {
    report.ok("libnccl.so.2", version_text(code));
  }
}

// NCCL 2.22 and older look for the module under its old name alone: /sys/kernel/mm/memory_peers/nv_mem*.
void peermem_is_seen(const Subject& subject, Report& report) {
  if (subject.node.peermem != true) return;
  bool old_name = false;
  for (const std::string& name : subject.root.list("/sys/kernel/mm/memory_peers"))
    old_name = old_name || name.starts_with("nv_mem");
  const int code = subject.live() ? library_version().value_or(0) : 0;
  if (old_name)
    report.ok("nvidia_peermem", "under the name that every version looks for");
  else if (code == 0)
    report.ok("nvidia_peermem", "seen by NCCL 2.23 and newer, older ones need DMA-BUF");
  else if (code >= 22300)
    report.ok("nvidia_peermem", "seen by NCCL " + version_text(code));
  else
    report.warn("nvidia_peermem", "not seen by NCCL " + version_text(code), "NCCL 2.23 or newer",
                "install a newer NCCL, or use the open kernel modules (DMA-BUF)");
}

// The first file of this name on LD_LIBRARY_PATH; the loader's cache is not asked.
std::string on_library_path(const std::string& name, const Root& root) {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  if (!path) return "";
  for (std::string_view folder : split(path, ':')) {
    std::string file = std::string(folder) + "/" + name;
    if (!folder.empty() && root.exists(file)) return file;
  }
  return "";
}

void network_plugin(const Subject& subject, Report& report) {
  if (!subject.live()) {
    report.skip("libnccl-net.so", "not on a recorded machine");
    return;
  }
  const char* wanted = std::getenv("NCCL_NET_PLUGIN");
  const std::string file = on_library_path("libnccl-net.so", subject.root);
  if (wanted)
    report.ok("NCCL_NET_PLUGIN", wanted);
  else if (file.empty())
    report.ok("libnccl-net.so", "none on LD_LIBRARY_PATH");
  else
    report.warn(file, "NCCL loads it in place of its own verbs transport",
                "none, but where SHARP or a provider's fabric wants it", "export NCCL_NET_PLUGIN=none");
}

void conf_files(const Subject& subject, Report& report) {
  for (const ConfLine& line : subject.node.nccl_conf) {
    const std::string object = fmt::format("{}:{}", line.file, line.line);
    const std::string seen = line.name + "=" + line.value;
    const bool blank = line.name != std::string(trim(line.name)) || line.value != std::string(trim(line.value));
    if (blank)
      report.warn(object, "'" + seen + "'", "no blanks around name and value: NCCL takes them as part of it",
                  "remove the blanks");
    else
      report.ok(object, seen);
  }
}

void own_values(const Subject& subject, Report& report) {
  std::vector<Note> notes;
  lint_settings(subject.node, subject.step, notes);
  for (const Note& note : notes)
    report.warn(note.object, note.text, "a value that selects what is meant", "nccl-tune plan tells what it would set");
  if (report.empty())
    for (const KeptSetting& kept : subject.plan.kept) report.ok(kept.name, "'" + kept.value + "' from " + kept.source);
}

void topology_file(const Subject& subject, Report& report) {
  auto look = [&](const std::string& name, const std::string& value) {
    if (name != "NCCL_TOPO_FILE") return;
    if (subject.root.read(value))
      report.ok(value, "can be read");
    else
      report.fail(value, "cannot be read", "a file that the task can open, inside a container too",
                  "mount it into the container");
  };
  for (const EnvSetting& setting : subject.plan.env) look(setting.name, setting.value);
  for (const KeptSetting& kept : subject.plan.kept) look(kept.name, kept.value);
}

}  // namespace

const std::vector<Check>& nccl_checks() {
  static const std::vector<Check> kChecks{
      {"nccl.library", "nccl", "all ranks must load the same version",
       "nccl src/init.cc: Mismatched NCCL version detected", library},
      {"nccl.peermem", "nccl", "GPUDirect RDMA stays off though the module is loaded", "NVIDIA/nccl#1676",
       peermem_is_seen},
      {"nccl.net-plugin", "nccl", "a plugin changes which settings count", "NVIDIA/nccl#676, coreweave/nccl-tests#84",
       network_plugin},
      {"nccl.conf-files", "nccl", "what these files set wins over defaults, and a container does not see them",
       "nccl src/misc/param.cc", conf_files},
      {"nccl.values", "nccl", "a value that selects something else is worse than none", "NVIDIA/nccl#1837", own_values},
      {"nccl.topology-file", "nccl", "NCCL goes on without a file that it cannot open", "nccl src/graph/xml.cc",
       topology_file},
  };
  return kChecks;
}

}  // namespace nccltune::check
