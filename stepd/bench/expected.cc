// SPDX-License-Identifier: Apache-2.0
#include "bench/expected.h"

#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>

#include "bench/statistics.h"
#include "bench/text.h"

#ifndef NCCLTUNE_SYSCONFDIR
#define NCCLTUNE_SYSCONFDIR "/etc"
#endif

namespace nccltune::bench {
namespace {

constexpr uint64_t kLarge = 1ull << 30;

std::string letters_and_digits(const std::string& text) {
  std::string word;
  for (const char c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c))) break;
    word += c;
  }
  return lower(word);
}

std::string default_file() {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  // Installed; in the source tree, with the tool in build/.
  for (const auto& path :
       {std::filesystem::path(NCCLTUNE_SYSCONFDIR "/nccl-tune/expected.yaml"),
        std::filesystem::path(NCCLTUNE_SYSCONFDIR "/expected.yaml"), self.parent_path() / "etc/expected.yaml"})
    if (access(path.c_str(), R_OK) == 0) return path;
  return "";
}

struct Reference {
  std::vector<double> measured, gates;
  std::set<std::string> sources;
};

Reference references_for(const std::vector<ExpectedFigure>& figures, const RunInfo& info, uint64_t bytes, bool sharp) {
  Reference reference;
  const std::string collective(info_of(info.options.collective).name);
  for (const ExpectedFigure& figure : figures) {
    if (figure.collective != collective || figure.ranks != info.ranks || figure.nodes != info.nodes ||
        figure.sharp != sharp)
      continue;
    if (!names_gpu(figure.gpu, info.devices.front().name)) continue;
    if (figure.bytes ? *figure.bytes != bytes : bytes < kLarge) continue;
    (figure.gate ? reference.gates : reference.measured).push_back(figure.busbw);
    reference.sources.insert(figure.platform + ", " + figure.source);
  }
  return reference;
}

bool uses_sharp(const RunInfo& info) {
  for (const auto& [name, value] : info.plan)
    if (name == "NCCL_COLLNET_ENABLE" && value == "1") return true;
  return false;
}

}  // namespace

bool names_gpu(const std::string& gpu, const std::string& device) {
  const std::string wanted = letters_and_digits(gpu);
  if (wanted.empty()) return false;
  for (const std::string& word : split(device, ' '))
    if (letters_and_digits(word) == wanted) return true;
  return false;
}

Result<std::vector<ExpectedFigure>> read_expected(const std::string& path) {
  std::vector<ExpectedFigure> figures;
  try {
    const YAML::Node file = YAML::LoadFile(path);
    for (const YAML::Node& entry : file["figures"]) {
      ExpectedFigure figure;
      figure.platform = entry["platform"].as<std::string>();
      figure.gpu = entry["gpu"].as<std::string>();
      figure.collective = entry["collective"].as<std::string>();
      figure.nodes = entry["nodes"].as<int>();
      figure.ranks = entry["gpus"].as<int>();
      if (entry["bytes"]) figure.bytes = entry["bytes"].as<uint64_t>();
      figure.busbw = entry["busbw"].as<double>();
      figure.gate = entry["kind"].as<std::string>() == "gate";
      figure.sharp = entry["sharp"] && entry["sharp"].as<bool>();
      figure.source = entry["source"].as<std::string>();
      figures.push_back(std::move(figure));
    }
  } catch (const YAML::Exception& fault) {
    return Error{print("%s:%d", path.c_str(), fault.mark.line + 1), "cannot read the expected figures", fault.msg, ""};
  }
  return figures;
}

Verdict compare(const std::vector<ExpectedFigure>& figures, const RunInfo& run, const std::vector<Row>& rows) {
  Verdict verdict;
  // Groups within a node are runs of their own; those that share a fabric with others are like no run of one.
  RunInfo info = run;
  if (!run.groups.empty()) {
    info.ranks = run.group_ranks;
    info.nodes = run.group_nodes;
    if (run.group_nodes > 1)
      return {{"expected: no figure is known for groups that share the fabric"}, !run.options.min_ratio};
  }
  bool any = false;
  const bool sharp = uses_sharp(info);
  for (const Row& row : rows) {
    const Reference reference = references_for(figures, info, row.bytes, sharp);
    const double busbw = std::max(row.out.busbw, row.in.busbw);
    const std::string what =
        print("expected: %s of %d x %s in %d node%s, %s: ", std::string(info_of(info.options.collective).name).c_str(),
              info.ranks, info.devices.front().name.c_str(), info.nodes, info.nodes == 1 ? "" : "s",
              human_size(row.bytes).c_str());
    for (const bool gate : {false, true}) {
      const auto& values = gate ? reference.gates : reference.measured;
      if (values.empty()) continue;
      any = true;
      const double wanted = gate ? *std::max_element(values.begin(), values.end()) : median(values);
      const double ratio = wanted > 0 ? busbw / wanted : 0;
      verdict.lines.push_back(what + print("%s %.1f GB/s, here %.1f GB/s, ratio %.2f (%s)",
                                           gate ? "a health check asks for" : "others measured", wanted, busbw, ratio,
                                           reference.sources.begin()->c_str()));
      if (!gate && info.options.min_ratio && ratio < *info.options.min_ratio) {
        verdict.met = false;
        verdict.lines.back() += print("; below the %.2f that was asked for (--min-ratio)", *info.options.min_ratio);
      }
    }
  }
  if (any) return verdict;
  verdict.lines.push_back(print("expected: no figure is known for %s of %d x %s in %d node%s with these sizes",
                                std::string(info_of(info.options.collective).name).c_str(), info.ranks,
                                info.devices.front().name.c_str(), info.nodes, info.nodes == 1 ? "" : "s"));
  if (info.options.min_ratio) {
    verdict.met = false;
    verdict.lines.back() += ", so --min-ratio cannot be met";
  }
  return verdict;
}

Verdict compare_with_expected(const Options& options, const RunInfo& info, const std::vector<Row>& rows) {
  if (info.devices.empty() || rows.empty() || (!options.min_ratio && (info.ranks == 1 || info.worker != "nccl")))
    return {};
  const std::string path = options.expected.empty() ? default_file() : options.expected;
  if (path.empty()) {
    if (!options.min_ratio) return {};
    return {{"expected: no file of figures is installed, so --min-ratio cannot be met"}, false};
  }
  auto figures = read_expected(path);
  if (!figures) return {{figures.error().text()}, !options.min_ratio};
  return compare(*figures, info, rows);
}

}  // namespace nccltune::bench
