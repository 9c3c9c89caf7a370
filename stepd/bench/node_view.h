// SPDX-License-Identifier: Apache-2.0
// What the node's facts and the plan say about the ways that data can take there. Made by the command: the benchmark
// itself knows measurements, not policies.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nccltune::bench {

struct NodeView {
  std::vector<std::string> active_hcas;  // of the compute fabric: "mlx5_0:1"
  double hca_gbs = 0;                    // GB/s each way, all of them together; 0: unknown
  std::string socket_interface;          // of NCCL's sockets, by name
  std::optional<bool> gpudirect;         // GPUDirect RDMA can be: DMA-BUF or nvidia_peermem; absent: not known
  // The plan's HCAs for a task with the GPU at `bdf`: names; empty: it has none.
  std::function<std::vector<std::string>(const std::string& bdf)> hcas_near;
  // What is wrong with the CPUs that this task has, for the GPU at `bdf`, one sentence; "": nothing.
  std::function<std::string(const std::string& bdf)> misplaced;
};

// Reads the node when it is called, which takes some milliseconds.
using ViewNode = std::function<NodeView()>;

}  // namespace nccltune::bench
