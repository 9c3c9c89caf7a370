// SPDX-License-Identifier: Apache-2.0
// What NCCL's own log (NCCL_DEBUG=INFO with NET and GRAPH) says about the way the data took. Formats of 2.18
// to 2.30.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace nccltune::bench {

struct DataPath {
  std::string network;                   // "IB", "Socket", "AWS Libfabric"; "": none was chosen
  std::vector<std::string> devices;      // "mlx5_0:1/IB", "eth0"
  std::set<std::string> used_devices;    // those that this rank's own sends go out by, proxies of other ranks left out
  std::map<std::string, int> channels;   // how many sends go "NET/IB/0/GDRDMA", "P2P/CUMEM", "SHM/direct/direct"
  std::map<int, std::string> device_of;  // by the number that NCCL gives it
  int net = 0, net_gdr = 0, p2p = 0, shm = 0, collnet = 0;
  bool nvls = false, mnnvl = false, sharp = false;
  bool no_ib_device = false;
  std::set<std::string> algorithms;   // "RING", "NVLS", "TREE"
  std::set<std::string> settings;     // variables that NCCL said it read: "NCCL_PROTO"
  std::vector<std::string> warnings;  // "NCCL WARN" lines, without their head; each once
  bool any = false;                   // the log held a line that was understood
};

DataPath parse_data_path(const std::string& log);
DataPath read_data_path(const std::string& file);
// Lines for the notes: what the log of one rank tells. What is wrong with it: rank_path.h.
std::vector<std::string> describe_data_path(const DataPath& path);
// At most `count` lines of the log that tell why it ended: its warnings, then the last of the others; in its own order.
std::vector<std::string> telling_lines(const std::string& log, size_t count);
std::vector<std::string> last_lines_of(const std::string& file, size_t count);

}  // namespace nccltune::bench
