// SPDX-License-Identifier: Apache-2.0
// Reads policy files from the disk of this node, as root or as the job's user.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/fd.h"
#include "policy/policy.h"
#include "policy/sharp.h"
#include "policy/yaml_tree.h"

namespace nccltune {
namespace {

// What is read here ends up in every job's environment: only root may have written it. A user who runs the tool may
// have a policy of his own; slurmstepd in user_init is no such user: it has the job's effective uid, and root's real
// one.
std::optional<Error> check_owner(const std::string& file, const struct stat& info) {
  const bool own = getuid() != 0 && info.st_uid == getuid();
  if (info.st_uid != 0 && !own)
    return Error{file, "owned by user " + std::to_string(info.st_uid), "", "it must belong to root"};
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error{file, "others than its owner may write it", "", "chmod go-w " + file};
  return std::nullopt;
}

// `name` is looked up in the folder `at`; `file` is what messages call it.
Result<std::string> read_file(int at, const char* name, const std::string& file) {
  // O_NONBLOCK: a FIFO must not hold the step up.
  const Fd fd(openat(at, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (fd.get() < 0) {
    const int reason = errno;
    if (reason == ELOOP) return Error{file, "a symbolic link is not followed", "", "name the file itself"};
    return Error{file, "cannot be opened", std::strerror(reason), ""};
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return Error{file, "cannot be examined", std::strerror(errno), ""};
  if (!S_ISREG(info.st_mode)) return Error{file, "not a regular file", "", ""};
  if (auto e = check_owner(file, info)) return *e;
  std::string text(kMaxPolicyBytes + 1, '\0');  // one more than is accepted: parse_yaml then refuses it
  std::size_t length = 0;
  while (length < text.size()) {
    const ssize_t got = read(fd.get(), text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{file, "cannot be read", std::strerror(errno), ""};
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  text.resize(length);
  return text;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// One file as it was found: what it says, or why it is left out.
struct Reading {
  Policy policy;
  std::optional<Error> fault;
  bool sets_mode = false, sets_bind = false;
};

// `mode` and `bind` of a policy that has a fault elsewhere, where they hold the plugin back.
void keep_brakes(const YamlNode& root, Reading& reading) {
  const auto word = [&](const char* key) {
    const YamlNode* value = root.find(key);
    return value != nullptr && value->kind == YamlNode::Kind::scalar ? value->scalar : std::string();
  };
  const auto one_key = [&](const char* key) { return parse_policy(std::string(key) + ": " + word(key) + "\n", ""); };
  if (const Result<Policy> mode = one_key("mode"); mode && mode->mode != Mode::on) {
    reading.policy.mode = mode->mode;
    reading.sets_mode = true;
  }
  if (const Result<Policy> bind = one_key("bind"); bind && !bind->bind) {
    reading.policy.bind = false;
    reading.sets_bind = true;
  }
}

Reading read_one(int at, const char* name, const std::string& file) {
  Reading reading;
  const Result<std::string> text = read_file(at, name, file);
  if (!text) {
    reading.fault = text.error();
    return reading;
  }
  const Result<YamlNode> root = parse_yaml(*text, file);
  Result<Policy> policy = parse_policy(*text, file);
  if (policy) {
    reading.policy = std::move(*policy);
    reading.sets_mode = root && root->find("mode") != nullptr;
    reading.sets_bind = root && root->find("bind") != nullptr;
  } else {
    reading.fault = policy.error();
    if (root) keep_brakes(*root, reading);
  }
  return reading;
}

// Lays a drop-in over what was read before it: its profiles are asked first, its hints replace earlier ones.
void lay_over(Policy& base, Reading reading) {
  Policy& over = reading.policy;
  if (reading.sets_mode) base.mode = over.mode;
  if (reading.sets_bind) base.bind = over.bind;
  if (reading.fault) {
    base.left_out.push_back(std::move(*reading.fault));
    return;
  }
  if (over.fabric_subnet) base.fabric_subnet = std::move(over.fabric_subnet);
  if (over.socket_ifname) base.socket_ifname = std::move(over.socket_ifname);
  for (Sourced& hca : over.exclude_hcas) base.exclude_hcas.push_back(std::move(hca));
  for (IgnoredCheck& entry : over.ignore_checks) base.ignore_checks.push_back(std::move(entry));
  std::set<std::string> names;
  for (const Profile& profile : over.profiles) names.insert(profile.name);
  std::vector<Profile> profiles = std::move(over.profiles);
  for (Profile& profile : base.profiles)
    if (names.count(profile.name) == 0) profiles.push_back(std::move(profile));
  base.profiles = std::move(profiles);
  for (std::string& source : over.sources) base.sources.push_back(std::move(source));
}

// Lays the *.yaml of a folder over `base`, sorted; nothing when it is not there. Hidden files are an editor's. The
// folder is held to what a file is: who may write in it could put any file of root's there by a hard link.
void lay_folder_over(Policy& base, const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY | O_NONBLOCK);
  if (fd < 0) {
    const int reason = errno;
    struct stat info {};
    const bool link = lstat(folder.c_str(), &info) == 0 && S_ISLNK(info.st_mode);  // with O_DIRECTORY it is ENOTDIR
    if (link)
      base.left_out.push_back({folder, "a symbolic link is not followed", "", "name the folder itself"});
    else if (reason != ENOENT)
      base.left_out.push_back({folder, "cannot be opened", std::strerror(reason), ""});
    return;
  }
  struct stat info {};
  DIR* dir = fstat(fd, &info) == 0 ? fdopendir(fd) : nullptr;
  if (dir == nullptr) {
    base.left_out.push_back({folder, "cannot be examined", std::strerror(errno), ""});
    close(fd);
    return;
  }
  std::vector<std::string> names;
  if (auto e = check_owner(folder, info)) {
    base.left_out.push_back(std::move(*e));
  } else {
    while (const dirent* entry = readdir(dir)) {  // NOLINT(concurrency-mt-unsafe): a DIR of our own
      const std::string name = entry->d_name;
      if (name[0] != '.' && ends_with(name, ".yaml")) names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) lay_over(base, read_one(fd, name.c_str(), folder + "/" + name));
  closedir(dir);
}

void add_unique(std::vector<std::string>& paths, const std::string& path) {
  if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
}

}  // namespace

std::string drop_in_of(const std::string& policy) {
  const std::size_t slash = policy.rfind('/'), dot = policy.rfind('.');
  const bool extension = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return policy.substr(0, extension ? dot : policy.size()) + ".d";
}

Result<Policy> load_policy(const std::string& file, const std::string& drop_in) {
  Reading main = read_one(AT_FDCWD, file.c_str(), file);
  if (main.fault) return *main.fault;
  if (!drop_in.empty()) lay_folder_over(main.policy, drop_in);
  return std::move(main.policy);
}

Policy load_what_stands(const std::string& file, const std::string& drop_in) {
  Reading main = read_one(AT_FDCWD, file.c_str(), file);
  Policy policy = std::move(main.policy);
  if (main.fault) policy.left_out.push_back(std::move(*main.fault));
  if (!drop_in.empty()) lay_folder_over(policy, drop_in);
  return policy;
}

std::vector<std::string> Policy::files() const {
  std::vector<std::string> paths;
  for (const Profile& profile : profiles) {
    for (const std::string& path : profile.when.files) add_unique(paths, path);
    for (const ProfileEnv& setting : profile.env)
      if (setting.if_file || setting.name == "NCCL_TOPO_FILE") add_unique(paths, setting.value);
  }
  for (const std::string& path : collnet_plugin_paths()) add_unique(paths, path);
  return paths;
}

std::vector<std::string> Policy::topology_files() const {
  // NCCL reads this one without being told (src/graph/topo.cc: ncclTopoGetSystem), so its locality counts everywhere.
  std::vector<std::string> paths{"/var/run/nvidia-topologyd/virtualTopology.xml"};
  for (const Profile& profile : profiles)
    for (const ProfileEnv& setting : profile.env)
      if (setting.name == "NCCL_TOPO_FILE") add_unique(paths, setting.value);
  return paths;
}

}  // namespace nccltune
