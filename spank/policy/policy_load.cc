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

#include "policy/policy.h"
#include "policy/sharp.h"
#include "policy/yaml_tree.h"

namespace nccltune {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

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

Result<std::string> read_file(const std::string& file) {
  // O_NONBLOCK: a FIFO must not hold the step up.
  const Descriptor fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
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

// The *.yaml of a folder, sorted; empty when it is not there. Hidden files are an editor's. The folder is held to what
// a file is: who may write in it could put any file of root's there by a hard link.
Result<std::vector<std::string>> drop_in_files(const std::string& folder) {
  std::vector<std::string> files;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return files;
  struct stat info {};
  if (fstat(dirfd(dir), &info) == 0)
    if (auto e = check_owner(folder, info)) {
      closedir(dir);
      return *e;
    }
  while (const dirent* entry = readdir(dir)) {  // NOLINT(concurrency-mt-unsafe): a DIR of our own
    const std::string name = entry->d_name;
    if (name[0] != '.' && ends_with(name, ".yaml")) files.push_back(folder + "/" + name);
  }
  closedir(dir);
  std::sort(files.begin(), files.end());
  return files;
}

Result<Policy> load_one(const std::string& file) {
  Result<std::string> text = read_file(file);
  if (!text) return text.error();
  return parse_policy(*text, file);
}

// Lays a drop-in over what was read before it: its profiles are asked first, its hints replace earlier ones.
void lay_over(Policy& base, Policy over, bool sets_mode, bool sets_bind) {
  if (sets_mode) base.mode = over.mode;
  if (sets_bind) base.bind = over.bind;
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

void add_unique(std::vector<std::string>& paths, const std::string& path) {
  if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
}

}  // namespace

Result<Policy> load_policy(const std::string& file, const std::string& drop_in) {
  Result<Policy> policy = load_one(file);
  if (!policy || drop_in.empty()) return policy;
  const Result<std::vector<std::string>> extras = drop_in_files(drop_in);
  if (!extras) return extras.error();
  for (const std::string& extra : *extras) {
    Result<std::string> text = read_file(extra);
    if (!text) return text.error();
    Result<Policy> over = parse_policy(*text, extra);
    if (!over) return over.error();
    const Result<YamlNode> root = parse_yaml(*text, extra);
    lay_over(*policy, std::move(*over), root && root->find("mode") != nullptr, root && root->find("bind") != nullptr);
  }
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
