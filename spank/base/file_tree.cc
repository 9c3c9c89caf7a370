// SPDX-License-Identifier: Apache-2.0
#include "base/file_tree.h"

#include <deque>

#include "base/text.h"

namespace nccltune {
namespace {

constexpr int kMaxLinks = 40;      // MAXSYMLINKS of the kernel
constexpr size_t kMaxPath = 4096;  // PATH_MAX
constexpr size_t kMaxComponents = 512;

std::string escape(std::string_view raw) {
  static const char* const kHex = "0123456789abcdef";
  std::string out;
  for (unsigned char c : raw) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\') {
      out += "\\\\";
    } else if (c < 0x20 || c >= 0x7f) {
      out += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    } else {
      out += static_cast<char>(c);
    }
  }
  return out;
}

std::optional<std::string> unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    switch (text[i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case '\\':
        out += '\\';
        break;
      case 'x': {
        if (i + 2 >= text.size()) return std::nullopt;
        const auto byte = parse_hex(text.substr(i + 1, 2));
        if (!byte) return std::nullopt;
        out += static_cast<char>(*byte);
        i += 2;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return out;
}

bool is_plain_absolute(const std::string& path) {
  if (path.empty() || path[0] != '/' || path.size() > kMaxPath || path.find('\0') != std::string::npos) return false;
  const auto parts = split(std::string_view(path).substr(1), '/');
  if (parts.size() > kMaxComponents) return false;
  for (std::string_view part : parts)
    if (part.empty() || part == "." || part == "..") return false;
  return true;
}

Error bad_line(const std::string& file, size_t line, const char* what) {
  return Error{file + ":" + std::to_string(line), what, "", "write the file again with nccl-tune dump"};
}

}  // namespace

Result<FileTree> FileTree::parse(std::string_view text, const std::string& file) {
  const std::vector<std::string_view> lines = split_lines(text);
  if (lines.empty() || lines[0] != kFirstLine)
    return Error{file, "not a file that nccl-tune dump wrote", "",
                 "its first line must be '" + std::string(kFirstLine) + "'"};
  FileTree tree;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty() || lines[i][0] == '#') continue;
    const auto fields = split(lines[i], '\t');
    if (fields[0].size() != 1 || std::string_view("fldn").find(fields[0]) == std::string_view::npos)
      return bad_line(file, i + 1, "unknown kind of entry");
    const Kind kind = static_cast<Kind>(fields[0][0]);
    const bool has_content = kind == Kind::file || kind == Kind::link;
    if (fields.size() != (has_content ? 3u : 2u)) return bad_line(file, i + 1, "wrong number of fields");
    const auto path = unescape(fields[1]);
    const auto content = unescape(has_content ? fields[2] : std::string_view());
    if (!path || !content) return bad_line(file, i + 1, "broken escape");
    if (!is_plain_absolute(*path)) return bad_line(file, i + 1, "not a plain absolute path");
    tree.add(*path, kind, *content);
  }
  return tree;
}

std::string FileTree::text() const {
  std::string out(kFirstLine);
  out += '\n';
  for (const auto& [path, entry] : entries_) {
    // A directory with something in it is implied by what it holds.
    const auto next = entries_.upper_bound(path + "/");
    if (entry.kind == Kind::directory && next != entries_.end() && next->first.starts_with(path + "/")) continue;
    out += static_cast<char>(entry.kind);
    out += '\t' + escape(path);
    if (entry.kind == Kind::file || entry.kind == Kind::link) out += '\t' + escape(entry.content);
    out += '\n';
  }
  return out;
}

void FileTree::add(const std::string& path, Kind kind, std::string content) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    Entry& above = entries_[path.substr(0, at)];
    if (above.kind == Kind::name) above.kind = Kind::directory;
  }
  const auto [it, fresh] = entries_.try_emplace(path, Entry{kind, content});
  if (fresh || kind == Kind::name || kind == Kind::directory) {
    if (!fresh && kind == Kind::directory && it->second.kind == Kind::name) it->second.kind = kind;
    return;
  }
  if (it->second.kind == Kind::name || it->second.kind == Kind::directory) it->second = Entry{kind, std::move(content)};
}

const FileTree::Entry* FileTree::find(const std::string& path) const {
  const auto it = entries_.find(path);
  return it == entries_.end() ? nullptr : &it->second;
}

std::vector<std::string> FileTree::names(const std::string& directory) const {
  std::vector<std::string> out;
  const std::string prefix = directory == "/" ? "/" : directory + "/";
  for (auto it = entries_.lower_bound(prefix); it != entries_.end() && it->first.starts_with(prefix);) {
    const std::string rest = it->first.substr(prefix.size());
    const size_t slash = rest.find('/');
    if (slash == std::string::npos) {
      out.push_back(rest);
      ++it;
    } else {
      // Over all that lies below this child: '0' follows '/' in ASCII.
      it = entries_.lower_bound(prefix + rest.substr(0, slash) + "0");
    }
  }
  return out;
}

std::optional<std::string> follow_links(
    const std::string& path, bool follow_last,
    const std::function<std::optional<std::string>(const std::string&)>& read_link) {
  if (path.empty() || path[0] != '/' || path.size() > kMaxPath) return std::nullopt;
  std::deque<std::string> todo;
  for (std::string_view part : split(path, '/')) todo.emplace_back(part);
  std::string done;  // free of links; "" is the root
  int links = 0;
  while (!todo.empty()) {
    const std::string part = std::move(todo.front());
    todo.pop_front();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      done.erase(done.empty() ? 0 : done.rfind('/'));
      continue;
    }
    const std::string next = done + '/' + part;
    if (next.size() > kMaxPath) return std::nullopt;
    const auto target = todo.empty() && !follow_last ? std::nullopt : read_link(next);
    if (!target) {
      done = next;
      continue;
    }
    if (++links > kMaxLinks || target->size() > kMaxPath || todo.size() > kMaxComponents) return std::nullopt;
    if (target->starts_with('/')) done.clear();
    const auto parts = split(*target, '/');
    todo.insert(todo.begin(), parts.begin(), parts.end());
  }
  return done.empty() ? "/" : done;
}

}  // namespace nccltune
