// SPDX-License-Identifier: Apache-2.0
#include "cli/tune_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "base/text.h"
#include "bench/collectives.h"
#include "policy/yaml_tree.h"

namespace nccltune::cli {
namespace {

using MaybeError = std::optional<Error>;
using Take = std::function<MaybeError(const YamlNode&)>;

constexpr size_t kMostValues = 16, kMostKnobs = 64;  // a choice is a byte, and a search is not endless

// One file: what every reader of it needs.
struct Reader {
  std::string file;

  Error error(const YamlNode& at, std::string what, std::string remedy = "") const {
    return yaml_error(file, at, std::move(what), std::move(remedy));
  }
  std::string where(const YamlNode& at) const { return file + ":" + std::to_string(at.line); }

  MaybeError map(const YamlNode& node, const std::string& what, const std::map<std::string, Take>& keys) const {
    if (node.kind != YamlNode::Kind::map) return error(node, what + " must be a map of keys and values");
    for (const auto& [name, value] : node.entries) {
      const auto known = keys.find(name.scalar);
      if (known == keys.end()) {
        std::vector<std::string> names;
        names.reserve(keys.size());
        for (const auto& [key, take] : keys) names.push_back(key);
        const std::string near = nearest_word(name.scalar, names);
        return error(name, "unknown key '" + name.scalar + "'",
                     near.empty() ? "known are " + join(names, ", ") : "did you mean '" + near + "'?");
      }
      if (auto e = known->second(value)) return e;
    }
    return std::nullopt;
  }
  MaybeError list(const YamlNode& node, const std::string& what, const Take& take) const {
    if (node.kind != YamlNode::Kind::list || node.items.empty()) return error(node, what + " must be a list");
    for (const YamlNode& item : node.items)
      if (auto e = take(item)) return e;
    return std::nullopt;
  }
  Take text(const std::string& what, std::string& to) const {
    return [this, what, &to](const YamlNode& node) -> MaybeError {
      if (node.kind != YamlNode::Kind::scalar || node.scalar.empty())
        return error(node, what + " must be one word or text");
      to = node.scalar;
      return std::nullopt;
    };
  }
  Take number(const std::string& what, int& to, int low, int high) const {
    return [this, what, &to, low, high](const YamlNode& node) -> MaybeError {
      const auto value = parse_int(node.scalar, low, high);
      if (!value)
        return error(node, what + " must be a number from " + std::to_string(low) + " to " + std::to_string(high));
      to = static_cast<int>(*value);
      return std::nullopt;
    };
  }
  Take size(const std::string& what, uint64_t& to) const {
    return [this, what, &to](const YamlNode& node) -> MaybeError {
      const auto value = parse_size(node.scalar);
      if (!value) return error(node, what + " must be a size as in 64K, 8M or 1G");
      to = *value;
      return std::nullopt;
    };
  }
  Take version(const std::string& what, int& to) const {
    return [this, what, &to](const YamlNode& node) -> MaybeError {
      const auto code = bench::nccl_code(node.scalar);
      if (!code) return error(node, what + " must be a version as in \"2.18\"", "put it in quotes");
      to = *code;
      return std::nullopt;
    };
  }
  Take collective(std::string& to) const {
    return [this, &to](const YamlNode& node) -> MaybeError {
      const auto* info = bench::find_collective(node.scalar);
      if (info == nullptr) return error(node, "unknown collective '" + node.scalar + "'", "see nccl-tune bench --list");
      to = info->name;
      return std::nullopt;
    };
  }
};

// "8M" for NCCL, which reads bytes; anything else as it is.
std::string value_text(const std::string& written) {
  if (written.size() < 2 || std::strchr("KMG", written.back()) == nullptr) return written;
  const auto size = parse_size(written);
  return size ? std::to_string(*size) : written;
}

MaybeError read_condition(const Reader& reader, const YamlNode& node, bench::KnobCondition& when) {
  return reader.map(node, "when",
                    {{"nodes", reader.number("nodes", when.nodes, 1, 100000)},
                     {"hcas", reader.number("hcas", when.hcas, 1, 64)},
                     {"ranks_per_node", reader.number("ranks_per_node", when.ranks_per_node, 1, 1024)},
                     {"link_layer",
                      [&](const YamlNode& n) -> MaybeError {
                        when.link_layer = n.scalar;
                        if (n.scalar == "Ethernet" || n.scalar == "InfiniBand") return std::nullopt;
                        return reader.error(n, "link_layer must be Ethernet or InfiniBand");
                      }},
                     {"gpu", reader.text("gpu", when.gpu)},
                     {"nccl", reader.version("nccl", when.nccl)},
                     {"nccl_below", reader.version("nccl_below", when.nccl_below)},
                     {"file", reader.text("file", when.file)},
                     {"sizes_from", reader.size("sizes_from", when.sizes_from)},
                     {"sizes_to", reader.size("sizes_to", when.sizes_to)},
                     {"sockets",
                      [&](const YamlNode& n) -> MaybeError {
                        when.sockets = n.scalar == "true";
                        return n.scalar == "true" || n.scalar == "false"
                                   ? std::nullopt
                                   : MaybeError(reader.error(n, "sockets must be true or false"));
                      }},
                     {"registration",
                      [&](const YamlNode& n) -> MaybeError {
                        when.registration = n.scalar == "true";
                        return n.scalar == "true" || n.scalar == "false"
                                   ? std::nullopt
                                   : MaybeError(reader.error(n, "registration must be true or false"));
                      }},
                     {"worker",
                      [&](const YamlNode& n) -> MaybeError {
                        when.worker = n.scalar;
                        return n.scalar == "nccl" || n.scalar == "host"
                                   ? std::nullopt
                                   : MaybeError(reader.error(n, "worker must be nccl or host"));
                      }},
                     {"collectives", [&](const YamlNode& n) {
                        return reader.list(n, "collectives", [&](const YamlNode& item) {
                          return reader.collective(when.collectives.emplace_back())(item);
                        });
                      }}});
}

MaybeError read_knob(const Reader& reader, const YamlNode& node, bench::Knob& knob) {
  knob.where = reader.where(node);
  std::vector<std::pair<std::string, const YamlNode*>> values;
  std::vector<int64_t> bounds;
  if (auto e = reader.map(node, "a variable",
                          {{"name", reader.text("name", knob.name)},
                           {"needs", reader.text("needs", knob.needs)},
                           {"risk", reader.text("risk", knob.risk)},
                           {"when", [&](const YamlNode& n) { return read_condition(reader, n, knob.when); }},
                           {"bounds",
                            [&](const YamlNode& n) {
                              return reader.list(n, "bounds", [&](const YamlNode& item) -> MaybeError {
                                const auto bound = parse_size(item.scalar);
                                if (!bound || bounds.size() == 2)
                                  return reader.error(item, "bounds are two numbers as in [1, 16]");
                                bounds.push_back(static_cast<int64_t>(*bound));
                                return std::nullopt;
                              });
                            }},
                           {"values", [&](const YamlNode& n) {
                              return reader.list(n, "values", [&](const YamlNode& item) -> MaybeError {
                                std::string word;
                                if (auto fault = reader.text("a value", word)(item)) return fault;
                                values.emplace_back(value_text(word), &item);
                                return std::nullopt;
                              });
                            }}}))
    return e;
  if (knob.name.empty()) return reader.error(node, "a variable has no name");
  if (values.empty() || values.size() > kMostValues)
    return reader.error(node, knob.name + " needs 1 to " + std::to_string(kMostValues) + " values");
  if (bounds.size() == 1) return reader.error(node, knob.name + ": bounds are two numbers as in [1, 16]");
  for (const auto& [value, at] : values) {
    const std::string place = reader.file + ":" + std::to_string(at->line) + ":" + std::to_string(at->column);
    if (auto e = bench::check_value(place, knob.name, value, bounds)) return e;
    if (std::find(knob.values.begin(), knob.values.end(), value) != knob.values.end())
      return reader.error(*at, knob.name + ": '" + value + "' is there already");
    knob.values.push_back(value);
  }
  return std::nullopt;
}

struct Entry {
  std::string collective;
  std::vector<uint64_t> sizes;
  protocol::DataType type = protocol::DataType::float32;
  protocol::Op op = protocol::Op::sum;
  std::optional<double> calls, weight;
};

MaybeError read_positive(const Reader& reader, const YamlNode& node, const std::string& what,
                         std::optional<double>& to) {
  char* end = nullptr;
  const double value = std::strtod(node.scalar.c_str(), &end);
  if (node.scalar.empty() || *end != '\0' || !(value > 0) || value > 1e12)
    return reader.error(node, what + " must be a number above 0");
  to = value;
  return std::nullopt;
}

template <class T, class Name>
MaybeError read_name(const Reader& reader, const YamlNode& node, const std::string& what, int count, Name name, T& to) {
  std::vector<std::string> known;
  for (int i = 0; i < count; ++i) {
    known.emplace_back(name(static_cast<T>(i)));
    if (known.back() != node.scalar) continue;
    to = static_cast<T>(i);
    return std::nullopt;
  }
  return reader.error(node, "unknown " + what + " '" + node.scalar + "'", "known are " + join(known, ", "));
}

MaybeError read_entry(const Reader& reader, const YamlNode& node, Entry& entry) {
  if (auto e = reader.map(
          node, "an entry of work",
          {{"collective", reader.collective(entry.collective)},
           {"sizes",
            [&](const YamlNode& n) {
              return reader.list(n, "sizes", [&](const YamlNode& item) {
                return reader.size("a size", entry.sizes.emplace_back())(item);
              });
            }},
           {"type",
            [&](const YamlNode& n) {
              return read_name(reader, n, "type", bench::kTypes, bench::type_name, entry.type);
            }},
           {"op", [&](const YamlNode& n) { return read_name(reader, n, "op", bench::kOps, bench::op_name, entry.op); }},
           {"calls", [&](const YamlNode& n) { return read_positive(reader, n, "calls", entry.calls); }},
           {"weight", [&](const YamlNode& n) { return read_positive(reader, n, "weight", entry.weight); }}}))
    return e;
  if (entry.collective.empty()) return reader.error(node, "an entry of work has no collective");
  if (entry.sizes.empty()) return reader.error(node, entry.collective + " has no sizes");
  if (entry.calls.has_value() == entry.weight.has_value())
    return reader.error(node, entry.collective + " needs calls (how often) or weight (its share), one of the two");
  return std::nullopt;
}

}  // namespace

Result<bench::Space> parse_space(const std::string& text, const std::string& file) {
  auto root = parse_yaml(text, file);
  if (!root) return root.error();
  const Reader reader{file};
  bench::Space space;
  const auto take_knob = [&](const YamlNode& item) -> MaybeError {
    bench::Knob knob;
    if (auto e = read_knob(reader, item, knob)) return e;
    space.knobs.push_back(std::move(knob));
    return std::nullopt;
  };
  if (auto e = reader.map(*root, "a space",
                          {{"variables", [&](const YamlNode& n) { return reader.list(n, "variables", take_knob); }}}))
    return *e;
  if (space.knobs.empty() || space.knobs.size() > kMostKnobs)
    return reader.error(*root, "a space has 1 to " + std::to_string(kMostKnobs) + " variables");
  for (const bench::Knob& knob : space.knobs) {
    if (knob.needs.empty()) continue;
    const auto base = std::find_if(space.knobs.begin(), space.knobs.end(),
                                   [&](const bench::Knob& other) { return other.name == knob.needs; });
    if (base == space.knobs.end() || !base->needs.empty() || base->name == knob.name)
      return Error{knob.where, knob.name + " needs '" + knob.needs + "', which is no variable of its own here", "", ""};
  }
  return space;
}

Result<Workload> parse_workload(const std::string& text, const std::string& file) {
  auto root = parse_yaml(text, file);
  if (!root) return root.error();
  const Reader reader{file};
  std::vector<Entry> entries;
  if (auto e = reader.map(*root, "a workload", {{"work", [&](const YamlNode& n) {
                                                   return reader.list(n, "work", [&](const YamlNode& item) {
                                                     return read_entry(reader, item, entries.emplace_back());
                                                   });
                                                 }}}))
    return *e;
  if (entries.empty()) return reader.error(*root, "a workload has no work");
  Workload workload;
  workload.objective.by_calls = entries.front().calls.has_value();
  struct Group {
    bench::Work work;
    std::map<uint64_t, double> weights;
  };
  std::vector<Group> groups;
  for (const Entry& entry : entries) {
    if (entry.calls.has_value() != workload.objective.by_calls)
      return reader.error(*root, "a workload counts calls or weighs shares, not both");
    const auto* info = bench::find_collective(entry.collective);
    bench::Work work{info->id, entry.type, info->has_op ? entry.op : protocol::Op::sum, 0, {}};
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.work.collective == work.collective && g.work.type == work.type && g.work.op == work.op;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {work, {}});
    for (const uint64_t size : entry.sizes) group->weights[size] += entry.calls ? *entry.calls : *entry.weight;
  }
  for (Group& group : groups) {
    for (const auto& [size, weight] : group.weights) {
      group.work.sizes.push_back(size);
      workload.objective.weights.push_back(weight);
    }
    workload.works.push_back(std::move(group.work));
  }
  return workload;
}

std::string default_space() {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const auto& path : {std::filesystem::path(NCCLTUNE_SYSCONFDIR "/nccl-tune/tune-space.yaml"),
                           self.parent_path() / "etc/tune-space.yaml"})
    if (access(path.c_str(), R_OK) == 0) return path;
  return "";
}

Result<std::string> read_text(const std::string& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Error{file, "cannot be opened", std::strerror(errno), ""};
  struct stat info {};
  std::string text(kMaxPolicyBytes + 1, '\0');  // one more than parse_yaml takes
  size_t at = 0;
  const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  for (ssize_t n = 0; regular && at < text.size() && (n = read(fd, text.data() + at, text.size() - at)) > 0;)
    at += static_cast<size_t>(n);
  close(fd);
  if (!regular) return Error{file, "not a regular file", "", ""};
  text.resize(at);
  return text;
}

}  // namespace nccltune::cli
