// SPDX-License-Identifier: Apache-2.0
#include "base/root.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/fd.h"
#include "base/text.h"

namespace nccltune {
namespace {

constexpr size_t kMaxRead = 1 << 20;
constexpr size_t kMaxDump = 64 << 20;
constexpr size_t kMaxNames = 1 << 16;  // in one directory

std::string relative(const std::string& path) {
  const size_t at = path.find_first_not_of('/');
  return at == std::string::npos ? "." : path.substr(at);
}

std::optional<std::string> read_link_at(int directory, const std::string& path) {
  char target[4096];
  const ssize_t n = ::readlinkat(directory, path.c_str(), target, sizeof target);
  if (n < 0 || static_cast<size_t>(n) >= sizeof target) return std::nullopt;
  return std::string(target, static_cast<size_t>(n));
}

// Up to limit bytes. one_read: sysfs gives an attribute whole in its first read, so a short one is the end.
std::optional<std::string> read_all(int fd, size_t limit, bool one_read) {
  std::string out;
  char buffer[8192];
  while (out.size() < limit) {
    const ssize_t n = ::read(fd, buffer, std::min(sizeof buffer, limit - out.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    out.append(buffer, static_cast<size_t>(n));
    if (one_read && static_cast<size_t>(n) < 4096) break;
  }
  return out;
}

bool is_regular(int fd) {
  struct stat st;
  return ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

// What an opened file holds. Below /sys a text that is not empty is proof enough of an attribute, which saves one
// system call in four of a node's reading; a fifo or a device of a made-up tree gives nothing or fails (O_NONBLOCK).
std::optional<std::string> read_file(int fd, size_t limit, bool in_sysfs) {
  if (!in_sysfs && !is_regular(fd)) return std::nullopt;
  auto content = read_all(fd, limit, in_sysfs);
  if (in_sysfs && content && (content->empty() || content->size() == limit) && !is_regular(fd)) return std::nullopt;
  return content;
}

// "/sys/../tmp/x" is no attribute, and a job's NCCL_CONF_FILE may be spelt like that.
bool is_in_sysfs(const std::string& path) { return path.starts_with("/sys/") && path.find("/..") == std::string::npos; }

using Names = std::vector<std::pair<std::string, std::string>>;

// Takes fd. With links: the target of each name that is one.
Names read_names(int fd, bool with_links) {
  Names names;
  DIR* directory = ::fdopendir(fd);
  if (!directory) {
    ::close(fd);
    return names;
  }
  while (const dirent* entry = ::readdir(directory)) {
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    if (names.size() == kMaxNames) break;
    names.emplace_back(entry->d_name, "");
    if (with_links) names.back().second = read_link_at(fd, entry->d_name).value_or("");
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

// The kernel cannot say: no openat2 (ENOSYS; EPERM from an old seccomp filter), or it could not prove that a ".." stays
// inside while something else on the machine was being renamed (EAGAIN).
bool is_unanswered(int error) { return error == ENOSYS || error == EPERM || error == EAGAIN; }

int open2(int directory, const std::string& path, int flags, uint64_t resolve) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = resolve;
  for (int tries = 0;; ++tries) {
    const long fd = ::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN || tries == 3) return static_cast<int>(fd);
  }
}

}  // namespace

// The directory behind a folder root. A path is opened with openat2(RESOLVE_IN_ROOT), one system call in which the
// kernel keeps every link inside; where that is missing (before Linux 5.6, or barred by seccomp) links are followed
// here, one component after the other.
class Root::Folder {
 public:
  explicit Folder(int fd) : fd_(fd) {}

  int open(const std::string& path, int flags) const {
    const int fd = open2(fd_.get(), relative(path), flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (fd >= 0 || !is_unanswered(errno)) return fd;
    const auto plain = follow(path, !(flags & O_NOFOLLOW));
    return plain ? ::openat(fd_.get(), relative(*plain).c_str(), flags | O_CLOEXEC | O_NOFOLLOW) : -1;
  }

  std::optional<std::string> follow(const std::string& path, bool follow_last) const {
    return follow_links(path, follow_last,
                        [this](const std::string& at) { return read_link_at(fd_.get(), relative(at)); });
  }

  std::optional<std::string> link(const std::string& path) const {
    const Fd fd(open(path, O_PATH | O_NOFOLLOW));
    return fd ? read_link_at(fd.get(), "") : std::nullopt;
  }

 private:
  Fd fd_;
};

Root::Root() = default;

Result<Root> Root::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat st;
  if (!fd || ::fstat(fd.get(), &st) != 0)
    return Error{path, "cannot open the recorded machine", std::strerror(errno), ""};
  Root root;
  root.prefix_ = path.substr(0, path.find_last_not_of('/') + 1);
  if (S_ISDIR(st.st_mode)) {
    if (root.prefix_.empty()) root.prefix_ = "/";
    root.folder_ = std::make_shared<const Folder>(fd.release());
    return root;
  }
  if (!S_ISREG(st.st_mode)) return Error{path, "neither a folder nor a file", "", ""};
  if (static_cast<uint64_t>(st.st_size) > kMaxDump) return Error{path, "larger than 64 MiB", "", ""};
  const auto text = read_all(fd.get(), kMaxDump, false);
  if (!text) return Error{path, "cannot read the dump", std::strerror(errno), ""};
  Result<FileTree> tree = FileTree::parse(*text, path);
  if (!tree) return tree.error();
  root.dump_ = std::make_shared<const FileTree>(std::move(*tree));
  return root;
}

bool Root::live() const { return !folder_ && !dump_ && !recording_; }

void Root::tell_path(const std::string& directory, const std::string& name) const {
  if (watch_ == nullptr) return;
  char* at = watch_->path;
  char* const end = at + sizeof watch_->path - 1;
  const auto put = [&](std::string_view text) {
    const size_t size = std::min(text.size(), static_cast<size_t>(end - at));
    std::memcpy(at, text.data(), size);
    at += size;
  };
  if (folder_) put(prefix_ == "/" ? "" : prefix_);
  put(directory);
  if (!name.empty()) put("/");
  put(name);
  std::memset(at, 0, static_cast<size_t>(end - at));
}

int Root::open_fd(const std::string& path, int flags) const {
  if (path.empty() || path[0] != '/') return -1;
  tell_path(path);
  // O_NONBLOCK: a fifo in a recorded tree must not stop slurmstepd. With O_PATH openat2 takes neither flag (EINVAL).
  if (!(flags & O_PATH)) flags |= O_NONBLOCK | O_NOCTTY;
  if (folder_) return folder_->open(path, flags);
  return ::open(path.c_str(), flags | O_CLOEXEC);
}

std::optional<std::string> Root::read_unrecorded(const std::string& path, size_t limit) const {
  if (dump_) {
    const auto plain = resolve(path);
    const FileTree::Entry* entry = plain ? dump_->find(*plain) : nullptr;
    if (!entry || entry->kind != FileTree::Kind::file) return std::nullopt;
    return entry->content.substr(0, limit);
  }
  const Fd fd(open_fd(path, O_RDONLY));
  if (!fd) return std::nullopt;
  return read_file(fd.get(), limit, is_in_sysfs(path));
}

std::optional<std::string> Root::read_head(const std::string& path, size_t limit) const {
  auto content = read_unrecorded(path, std::min(limit, kMaxRead));
  if (recording_ && content)
    if (const auto plain = record_links(path)) recording_->add(*plain, FileTree::Kind::file, *content);
  return content;
}

std::optional<std::string> Root::read(const std::string& path) const { return read_head(path, kMaxRead); }

std::optional<std::string> Root::read_line(const std::string& path) const {
  const auto content = read(path);
  return content ? std::optional(std::string(first_line(*content))) : std::nullopt;
}

std::vector<std::optional<std::string>> Root::read_lines(const std::string& directory,
                                                         const std::vector<std::string>& names) const {
  std::vector<std::optional<std::string>> out(names.size());
  const bool on_disk = !dump_ && !recording_;
  const Fd at(on_disk ? open_fd(directory, O_PATH | O_DIRECTORY) : -1);
  if (on_disk && !at) return out;
  for (size_t i = 0; i < names.size(); ++i) {
    const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
    int opened = -1;
    if (on_disk) tell_path(directory, names[i]);
    // A plain name cannot leave the directory; one with a folder in it could, through a link.
    if (on_disk && names[i].find('/') == std::string::npos) {
      opened = ::openat(at.get(), names[i].c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
    } else if (on_disk) {
      opened = open2(at.get(), names[i], flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    }
    const Fd fd(opened);
    if (!on_disk || (!fd && (errno == ELOOP || is_unanswered(errno)))) {
      out[i] = read_line(directory + "/" + names[i]);
      continue;
    }
    if (!fd) continue;
    if (const auto content = read_file(fd.get(), kMaxRead, is_in_sysfs(directory)))
      out[i] = std::string(first_line(*content));
  }
  return out;
}

std::optional<std::string> Root::link_unrecorded(const std::string& path) const {
  if (dump_) {
    const auto plain = follow_links(path, false, [this](const std::string& at) { return link_of_plain(at); });
    return plain ? link_of_plain(*plain) : std::nullopt;
  }
  return link_of_plain(path);
}

std::optional<std::string> Root::link_of_plain(const std::string& path) const {
  if (dump_) {
    const FileTree::Entry* entry = dump_->find(path);
    return entry && entry->kind == FileTree::Kind::link ? std::optional(entry->content) : std::nullopt;
  }
  if (path.empty() || path[0] != '/') return std::nullopt;
  tell_path(path);
  return folder_ ? folder_->link(path) : read_link_at(AT_FDCWD, path);
}

std::optional<std::string> Root::link(const std::string& path) const {
  auto target = link_unrecorded(path);
  if (recording_ && target) record_links(path);
  return target;
}

std::optional<std::string> Root::resolve(const std::string& path) const {
  if (recording_) {
    const auto plain = record_links(path);
    return plain && exists(*plain) ? plain : std::nullopt;
  }
  const auto plain = follow_links(path, true, [this](const std::string& at) { return link_of_plain(at); });
  return plain && exists(*plain) ? plain : std::nullopt;
}

std::vector<std::string> Root::list_unrecorded(const std::string& path) const {
  if (dump_) {
    const auto plain = resolve(path);
    return plain ? dump_->names(*plain) : std::vector<std::string>();
  }
  std::vector<std::string> out;
  Fd fd(open_fd(path, O_RDONLY | O_DIRECTORY));
  if (fd)
    for (auto& name : read_names(fd.release(), false)) out.push_back(std::move(name.first));
  return out;
}

std::vector<std::string> Root::list(const std::string& path) const {
  std::vector<std::string> names = list_unrecorded(path);
  if (recording_) record_names(path, names);
  return names;
}

std::vector<std::pair<std::string, std::string>> Root::list_links(const std::string& path) const {
  if (!dump_ && !recording_) {
    Fd fd(open_fd(path, O_RDONLY | O_DIRECTORY));
    return fd ? read_names(fd.release(), true) : Names();
  }
  Names out;
  for (const std::string& name : list(path)) out.emplace_back(name, link(path + "/" + name).value_or(""));
  return out;
}

bool Root::exists(const std::string& path) const {
  bool found = false;
  if (dump_) {
    const auto plain = follow_links(path, true, [this](const std::string& at) { return link_of_plain(at); });
    found = plain && (*plain == "/" || dump_->find(*plain));
  } else {
    found = bool(Fd(open_fd(path, O_PATH)));
  }
  if (recording_ && found)
    if (const auto plain = record_links(path)) recording_->add(*plain, FileTree::Kind::name);
  return found;
}

bool Root::is_directory(const std::string& path) const {
  bool found = false;
  if (dump_) {
    const auto plain = resolve(path);
    const FileTree::Entry* entry = plain ? dump_->find(*plain) : nullptr;
    found = plain && (*plain == "/" || (entry && entry->kind == FileTree::Kind::directory));
  } else {
    found = bool(Fd(open_fd(path, O_PATH | O_DIRECTORY)));
  }
  if (recording_ && found)
    if (const auto plain = record_links(path); plain && *plain != "/")
      recording_->add(*plain, FileTree::Kind::directory);
  return found;
}

std::string Root::shown(const std::string& path) const {
  if (dump_) return prefix_ + ":" + path;
  return prefix_ == "/" ? path : prefix_ + path;
}

Root Root::recording_into(std::shared_ptr<FileTree> tree) const {
  Root root = *this;
  root.recording_ = std::move(tree);
  root.recorded_directories_ = std::make_shared<std::map<std::string, std::string>>();
  return root;
}

// Adds each link on the way to path, its own last one too; returns where the path ends.
std::optional<std::string> Root::record_links(const std::string& path) const {
  const auto record = [this](const std::string& at) {
    auto target = link_of_plain(at);
    if (target) recording_->add(at, FileTree::Kind::link, *target);
    return target;
  };
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return follow_links(path, true, record);
  const std::string directory = path.substr(0, slash), name = path.substr(slash);
  auto known = recorded_directories_->find(directory);
  if (known == recorded_directories_->end()) {
    const auto plain = follow_links(directory, true, record);
    if (!plain) return std::nullopt;
    known = recorded_directories_->emplace(directory, *plain).first;
  }
  const std::string at = known->second == "/" ? name : known->second + name;
  return record(at) ? follow_links(at, true, record) : at;
}

void Root::record_names(const std::string& directory, const std::vector<std::string>& names) const {
  const auto plain = record_links(directory);
  if (!plain || !is_directory(*plain)) return;
  for (const std::string& name : names) {
    const std::string at = *plain == "/" ? "/" + name : *plain + "/" + name;
    if (const auto target = link_of_plain(at)) {
      recording_->add(at, FileTree::Kind::link, *target);
    } else {
      recording_->add(at, is_directory(at) ? FileTree::Kind::directory : FileTree::Kind::name);
    }
  }
}

}  // namespace nccltune
