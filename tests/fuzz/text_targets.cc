// SPDX-License-Identifier: Apache-2.0
#include <climits>

#include "base/cpuset.h"
#include "base/file_tree.h"
#include "base/text.h"
#include "fuzz/targets.h"
#include "node/node.h"
#include "plugin/address.h"
#include "plugin/mark.h"
#include "plugin/options.h"
#include "policy/nccl_list.h"
#include "policy/policy.h"

namespace fuzz {
namespace {

using namespace nccltune;

void sizes(std::string_view input) {
  if (const auto bytes = parse_size(input)) MUST(*bytes <= INT64_MAX);
  if (const auto number = parse_int(input, -5, 70000)) MUST(*number >= -5 && *number <= 70000);
  if (const auto number = parse_hex(input)) MUST(parse_hex(input) == number);
  for (std::string_view word : split_words(input)) MUST(!word.empty() && trim(word) == word);
  std::string joined;
  for (std::string_view part : split(input, ',')) joined += std::string(part) + ",";
  joined.pop_back();
  MUST(joined == input);
}

void cpulist(std::string_view input) {
  for (const auto& set : {CpuSet::from_list(input), CpuSet::from_mask(input)}) {
    if (!set) continue;
    // 16-50331:2 is 25,000 numbers with no two in a row: longer as a list than from_list takes.
    const auto again = CpuSet::from_list(set->list());
    MUST((again && *again == *set) || set->list().size() > 32768);
    const std::vector<int> ids = set->ids();
    MUST(static_cast<int>(ids.size()) == set->count() && set->empty() == ids.empty());
    MUST(ids.empty() || (ids.front() == set->first() && ids.front() >= 0 && ids.back() <= CpuSet::kMaxId));
    MUST(((*set & *set) == *set) && ((*set - *set).empty()) && ((*set | *set) == *set));
  }
}

void glob(std::string_view input) {
  const auto parts = sections(input, 2);
  const bool matches = glob_match(parts[0], parts[1]);
  if (!is_glob(parts[0]) && parts[0].find('\\') == std::string::npos) MUST(matches == (parts[0] == parts[1]));
  MUST(glob_match("*", parts[1]));
  edit_distance(parts[0].substr(0, 200), parts[1].substr(0, 200));
  nearest_word(parts[0], {parts[1], "verbose", "profile"});
}

void option(std::string_view input) {
  const std::string text(input);
  const ParsedOptions parsed = parse_options(text.c_str());
  if (parsed.error) MUST(is_one_line(parsed.error->text()));
  MUST(parsed.options.profile.size() <= 64 && is_one_line(parsed.options.profile));
  // The last one wins, and a second call changes nothing.
  MUST(parse_options(text.c_str()).options == parsed.options);
}

void plugstack(std::string_view input) {
  std::vector<std::string> words = sections(input, 8);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const ParsedArguments parsed = parse_arguments(static_cast<int>(argv.size()), argv.data());
  MUST(parsed.arguments.policy.empty() || parsed.arguments.policy[0] == '/');
  MUST(parsed.arguments.root.empty() || parsed.arguments.root[0] == '/');
  for (const Error& error : parsed.errors) MUST(is_one_line(error.text()));
}

void policy(std::string_view input) {
  const Result<Policy> parsed = parse_policy(std::string(input), "/etc/p.yaml");
  if (!parsed) {
    MUST(parsed.error().object.starts_with("/etc/p.yaml"));
    return;
  }
  for (const Profile& profile : parsed->profiles)
    for (const ProfileEnv& setting : profile.env) MUST(!setting.name.empty());
  parsed->files();
  parsed->topology_files();
}

void dump(std::string_view input) {
  const Result<FileTree> tree = FileTree::parse(input, "x.dump");
  if (!tree) return;
  const Result<FileTree> again = FileTree::parse(tree->text(), "x.dump");
  MUST(again.ok() && again->text() == tree->text());
  for (const auto& [path, entry] : tree->entries()) {
    MUST(path[0] == '/' && path.find("/../") == std::string::npos);
    tree->names(path);
    if (&entry - &tree->entries().begin()->second > 64) break;
  }
}

void nccl_list(std::string_view input) {
  const auto parts = sections(input, 2);
  const NcclList list = NcclList::parse(parts[0]);
  list.takes(parts[1], 1);
  list.takes(parts[1], -1);
}

void marks(std::string_view input) {
  const std::set<std::string> names = marked_names({{kMark, std::string(input)}});
  MUST(names.size() <= 1024);
  for (const std::string& name : names) MUST(is_settable_name(name) && name != "PATH");
  MUST(marked_names({{kMark, mark_of(names)}}) == names);
}

void dns(std::string_view input) {
  const std::string address = address_in_dns_answer(input);
  MUST(address.size() < 16 && address.find_first_not_of("0123456789.") == std::string::npos);
}

}  // namespace

void add_text_targets(std::vector<Target>& all) {
  for (const Target& target :
       {Target{"sizes", sizes, 4096}, Target{"cpulist", cpulist, 40000}, Target{"glob", glob, 2048},
        Target{"option", option, 2048}, Target{"plugstack", plugstack, 2048}, Target{"policy", policy, 65536},
        Target{"dump", dump, 1 << 20}, Target{"nccl-list", nccl_list, 4096}, Target{"marks", marks, 40000},
        Target{"dns", dns, 2048}})
    all.push_back(target);
}

}  // namespace fuzz
