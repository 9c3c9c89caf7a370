// SPDX-License-Identifier: Apache-2.0
#include "bench/rank_path.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr size_t kMostNamed = 8;    // ranks by name, for one fault
constexpr size_t kMostFaults = 12;  // different ones; the rest are counted

bool is_sockets(const std::string& network) { return lower(network).find("socket") != std::string::npos; }

bool has(const std::map<std::string, std::string>& environment, const char* name,
         std::initializer_list<std::string_view> values) {
  const auto at = environment.find(name);
  return at != environment.end() && std::find(values.begin(), values.end(), at->second) != values.end();
}

// Fields and lines are kept apart by tabs and newlines, faults by a unit separator.
std::string clean(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

// The ranks of one text, as people name them.
std::string name_ranks(const std::vector<int>& ranks, size_t all, const std::function<std::string(int)>& who) {
  if (ranks.size() == all && all > 1) return print("all %zu ranks", all);
  if (ranks.size() > kMostNamed)
    return print("%zu ranks, %s, first %s", ranks.size(), rank_list(ranks).c_str(), who(ranks.front()).c_str());
  std::vector<std::string> names;
  names.reserve(ranks.size());
  for (const int rank : ranks) names.push_back(who(rank));
  return join(names, ", ");
}

std::string network_of(const RankPath& path) {
  if (path.net == 0) return "";
  if (is_sockets(path.network)) return path.network;
  return path.network + (path.net_gdr == path.net ? " with GPUDirect RDMA"
                         : path.net_gdr == 0      ? " through host memory"
                                                  : " with GPUDirect RDMA for some channels only");
}

std::string local_of(const RankPath& path) {
  if (path.p2p && path.shm) return "peer to peer and shared memory within the node";
  if (path.p2p) return "peer to peer within the node";
  return path.shm ? "shared memory within the node" : "";
}

std::string switch_of(const RankPath& path) {
  std::vector<std::string> parts;
  if (path.nvls) parts.emplace_back("NVLS");
  if (path.sharp) parts.emplace_back("SHARP");
  if (path.mnnvl) parts.emplace_back("MNNVL");
  return join(parts, ", ");
}

// Tells what most ranks do of one aspect, and who does otherwise. Ranks of which the aspect tells nothing are left out.
template <class Aspect>
void tell_aspect(const std::vector<RankPath>& paths, Aspect aspect, const std::function<std::string(int)>& who,
                 std::vector<std::string>& common, std::vector<std::string>& others) {
  std::map<std::string, std::vector<int>> ranks_of;
  for (const RankPath& path : paths)
    if (const std::string text = aspect(path); !text.empty()) ranks_of[text].push_back(path.rank);
  if (ranks_of.empty()) return;
  const auto most = std::max_element(ranks_of.begin(), ranks_of.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  common.push_back(most->first);
  for (const auto& [text, ranks] : ranks_of)
    if (text != most->first)
      others.push_back(name_ranks(ranks, paths.size(), who) + ": " + text + ", where most have " + most->first);
}

}  // namespace

RankPath judge(int rank, const DataPath& path, const NodeView& node, const std::string& gpu,
               const std::map<std::string, std::string>& environment) {
  RankPath result;
  result.rank = rank;
  result.known = path.any;
  result.network = path.network;
  result.net = path.net;
  result.net_gdr = path.net_gdr;
  result.p2p = path.p2p > 0;
  result.shm = path.shm > 0;
  result.nvls = path.nvls;
  result.sharp = path.sharp;
  result.mnnvl = path.mnnvl;
  if (node.misplaced && !gpu.empty())
    if (std::string text = node.misplaced(gpu); !text.empty()) result.faults.push_back(std::move(text));
  if (!path.any || path.net == 0) return result;

  if (is_sockets(path.network)) {
    const auto named = environment.find("NCCL_IB_HCA");
    if (has(environment, "NCCL_IB_DISABLE", {"1"}) || has(environment, "NCCL_NET", {"Socket", "socket"})) return result;
    std::string hcas = join(node.active_hcas, " ");
    if (hcas.empty() && named != environment.end()) hcas = named->second;
    if (!hcas.empty())
      result.faults.push_back("NCCL went over TCP sockets although there are active HCAs: " + hcas +
                              (path.no_ib_device ? "; NCCL found none of them" : ""));
    return result;
  }
  const bool refused =
      has(environment, "NCCL_NET_GDR_LEVEL", {"LOC", "0"}) || has(environment, "NCCL_NET_GDR_READ", {"0"});
  if (path.net > path.net_gdr && !refused && node.gpudirect != false)
    result.faults.push_back(std::string("network channels are staged through host memory, without GPUDirect RDMA") +
                            (node.gpudirect ? ", which this node could do (DMA-BUF or nvidia_peermem is there)" : ""));
  std::vector<std::string> near;
  if (node.hcas_near && !gpu.empty()) near = node.hcas_near(gpu);
  std::set<std::string> strays;
  for (const std::string& device : path.used_devices) {
    // A device that NCCL merged from two ports or cards, "mlx5_0+mlx5_1", is one of each.
    const auto parts = split(device.substr(0, device.find(':')), '+');
    if (std::none_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return std::find(near.begin(), near.end(), part) != near.end(); }))
      strays.insert(device.substr(0, device.find('/')));
  }
  if (!near.empty() && !strays.empty())
    result.faults.push_back("used " + join({strays.begin(), strays.end()}, " ") +
                            "; the plan's for this GPU: " + join(near, " "));
  return result;
}

std::string pack(const RankPath& p) {
  std::string text = print("%d\t%d\t%d\t%d\t%d%d%d%d%d\t%s\t", p.rank, p.known, p.net, p.net_gdr, p.p2p, p.shm, p.nvls,
                           p.sharp, p.mnnvl, clean(p.network).substr(0, 64).c_str());
  for (const std::string& fault : p.faults) text += clean(fault).substr(0, 280) + '\x1f';
  return text.substr(0, kMostBytes);
}

std::optional<RankPath> unpack_path(std::string_view line) {
  const auto fields = split(line, '\t');
  if (fields.size() != 7 || fields[4].size() != 5) return std::nullopt;
  const auto rank = parse_integer(fields[0], 0, 1 << 30), net = parse_integer(fields[2], 0, 1 << 30),
             gdr = parse_integer(fields[3], 0, 1 << 30);
  if (!rank || !net || !gdr) return std::nullopt;
  RankPath p;
  p.rank = static_cast<int>(*rank);
  p.known = fields[1] == "1";
  p.net = static_cast<int>(*net);
  p.net_gdr = static_cast<int>(*gdr);
  const std::string& flags = fields[4];
  p.p2p = flags[0] == '1', p.shm = flags[1] == '1', p.nvls = flags[2] == '1', p.sharp = flags[3] == '1',
  p.mnnvl = flags[4] == '1';
  p.network = fields[5];
  for (const std::string& fault : split(fields[6], '\x1f'))
    if (!fault.empty()) p.faults.push_back(fault);
  return p;
}

std::vector<std::string> describe_paths(const std::vector<RankPath>& all, int ranks,
                                        const std::function<std::string(int)>& who) {
  std::vector<RankPath> paths;
  for (const RankPath& path : all)
    if (path.known) paths.push_back(path);
  std::vector<std::string> lines;
  if (paths.empty()) return lines;
  std::map<std::string, std::vector<int>> ranks_of;
  for (const RankPath& path : paths)
    for (const std::string& fault : path.faults) ranks_of[fault].push_back(path.rank);
  for (const auto& [fault, with] : ranks_of) {
    if (lines.size() == kMostFaults) {
      lines.push_back(print("WARNING: and %zu more of this kind", ranks_of.size() - kMostFaults));
      break;
    }
    lines.push_back("WARNING: " + name_ranks(with, paths.size(), who) + ": " + fault);
  }
  std::vector<std::string> common, others;
  tell_aspect(paths, network_of, who, common, others);
  tell_aspect(paths, local_of, who, common, others);
  tell_aspect(paths, switch_of, who, common, others);
  const std::string some =
      static_cast<int>(paths.size()) < ranks
          ? print("data path of %zu of %d ranks", paths.size(), ranks)
          : print("data path of %s%d rank%s", ranks > 1 ? "all " : "", ranks, ranks > 1 ? "s" : "");
  lines.push_back(some + ": " + (common.empty() ? "no channels" : join(common, "; ")));
  for (std::string& line : others) lines.push_back(std::move(line));
  return lines;
}

}  // namespace nccltune::bench
