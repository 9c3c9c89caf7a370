// SPDX-License-Identifier: Apache-2.0
// The data path of every rank: each task reads the logs of its own workers and judges them by its own node, a bounded
// line a rank goes to rank 0, which tells what most do and names those that do otherwise.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/data_path.h"
#include "bench/node_view.h"

namespace nccltune::bench {

struct RankPath {
  int rank = 0;
  bool known = false;             // its log told something
  std::string network;            // of DataPath; "": no channel left the node
  int net = 0, net_gdr = 0;       // channels
  bool p2p = false, shm = false;  // channels within the node
  bool nvls = false, sharp = false, mnnvl = false;
  std::vector<std::string> faults;  // what is wrong by the node's facts, one sentence each
};

// `gpu`: BDF, "" for none. `environment`: the worker's.
RankPath judge(int rank, const DataPath& path, const NodeView& node, const std::string& gpu,
               const std::map<std::string, std::string>& environment);

// One line of at most kMostBytes.
inline constexpr size_t kMostBytes = 1000;
std::string pack(const RankPath& path);
std::optional<RankPath> unpack_path(std::string_view line);

// Lines for the notes, faults first. `who`: names a rank with its host and GPU. `ranks`: of the run; those without a
// path are counted.
std::vector<std::string> describe_paths(const std::vector<RankPath>& paths, int ranks,
                                        const std::function<std::string(int)>& who);

}  // namespace nccltune::bench
