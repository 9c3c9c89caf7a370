// SPDX-License-Identifier: Apache-2.0
#include "plugin/options.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace nccltune {
namespace {

constexpr std::size_t kMaxArgument = 1024;  // bytes; every key there is, twice, fits
constexpr std::size_t kMaxProfile = 64;     // bytes of a profile's name
constexpr std::size_t kMaxQuoted = 80;      // bytes of a bad key that a message repeats
constexpr int kMaxWords = 64;               // in plugstack.conf
constexpr const char* kKnownKeys = "on, off, show, env, bind, strict, verbose, profile=NAME, sharp, torch";
constexpr const char* kKnownWords = "default=on|off, policy=FILE, gpu_order=pci|minor, root=DIR";

// For a message: one line, bounded, whatever was typed.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text.substr(0, kMaxQuoted)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out + (text.size() > kMaxQuoted ? "...'" : "'");
}

bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !text.empty() && text.size() <= kMaxProfile && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

// The value behind "KEY=", or nothing when `text` is of another key.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key) {
  if (text.substr(0, key.size()) != key || text.substr(key.size(), 1) != "=") return std::nullopt;
  return text.substr(key.size() + 1);
}

bool take_action(std::string_view key, Options& options) {
  static constexpr struct {
    std::string_view name;
    Options::Action action;
  } kActions[] = {{"on", Options::Action::on},
                  {"off", Options::Action::off},
                  {"show", Options::Action::show},
                  {"env", Options::Action::env},
                  {"bind", Options::Action::bind}};
  for (const auto& known : kActions) {
    if (key != known.name) continue;
    options.action = known.action;
    return true;
  }
  return false;
}

bool take_flag(std::string_view key, Options& options) {
  if (key == "strict") return options.strict = true;
  if (key == "verbose") return options.verbose = true;
  if (key == "sharp") return options.sharp = true;
  if (key == "torch") return options.torch = true;
  return false;
}

std::optional<Error> take_key(std::string_view key, Options& options) {
  if (take_action(key, options) || take_flag(key, options)) return std::nullopt;
  if (auto name = value_of(key, "profile")) {
    if (!is_name(*name))
      return Error{"--nccl-tune", "profile=" + quoted(*name) + " is not a profile's name", "",
                   "use letters, digits, '.', '_' and '-', 64 at most"};
    options.profile = *name;
    return std::nullopt;
  }
  return Error{"--nccl-tune", "unknown key " + quoted(key), "", std::string("known: ") + kKnownKeys};
}

std::optional<Error> take_word(std::string_view word, Arguments& arguments) {
  const Error unknown{"plugstack.conf", "unknown argument " + quoted(word), "", std::string("known: ") + kKnownWords};
  if (auto value = value_of(word, "default")) {
    if (*value != "on" && *value != "off") return unknown;
    arguments.on_by_default = *value == "on";
  } else if (auto value = value_of(word, "gpu_order")) {
    if (*value != "pci" && *value != "minor") return unknown;
    arguments.gpu_order = *value == "minor" ? GpuOrder::minor : GpuOrder::pci;
  } else if (auto value = value_of(word, "policy")) {
    // Relative to what, in slurmstepd? Its folder is Slurm's business.
    if (value->substr(0, 1) != "/") return Error{"plugstack.conf", quoted(word) + " is not an absolute path", "", ""};
    arguments.policy = *value;
  } else if (auto value = value_of(word, "root")) {
    if (value->substr(0, 1) != "/") return Error{"plugstack.conf", quoted(word) + " is not an absolute path", "", ""};
    arguments.root = *value;
  } else {
    return unknown;
  }
  return std::nullopt;
}

ParsedOptions parse_keys(const char* argument) {
  ParsedOptions parsed;
  if (argument == nullptr) return parsed;
  const std::size_t length = strnlen(argument, kMaxArgument + 1);
  if (length > kMaxArgument) {
    parsed.error = Error{"--nccl-tune", "the argument is longer than 1024 bytes", "", ""};
    return parsed;
  }
  std::string_view rest(argument, length);
  if (rest.empty() || rest == "(null)") return parsed;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view key = rest.substr(0, comma);
    // "on,,verbose" and a comma at the end are slips of a script that joins words; they ask for nothing.
    if (!key.empty()) {
      std::optional<Error> error = take_key(key, parsed.options);
      if (error && !parsed.error) parsed.error = std::move(error);
    }
    if (comma == std::string_view::npos) return parsed;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

bool is_from_variable(const char* argument) {
  const std::string_view key = kFromVariable;
  return argument != nullptr && std::strncmp(argument, key.data(), key.size()) == 0 &&
         (argument[key.size()] == ',' || argument[key.size()] == '\0');
}

ParsedOptions parse_options(const char* argument) {
  if (!is_from_variable(argument)) return parse_keys(argument);
  argument += std::strlen(kFromVariable);
  ParsedOptions parsed = parse_keys(*argument == ',' ? argument + 1 : nullptr);
  if (parsed.error) parsed.error->object = "NCCLTUNE";
  return parsed;
}

ParsedArguments parse_arguments(int count, char** words) {
  ParsedArguments parsed;
  for (int i = 0; words != nullptr && i < std::min(count, kMaxWords); ++i) {
    if (words[i] == nullptr) continue;
    if (auto error = take_word(words[i], parsed.arguments)) parsed.errors.push_back(std::move(*error));
  }
  return parsed;
}

}  // namespace nccltune
