// SPDX-License-Identifier: Apache-2.0
#include "policy/sharp.h"

#include "policy/facts.h"

namespace nccltune {

std::vector<std::string> collnet_plugin_paths() {
  return {"/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so",
          "/opt/hpcx-*/nccl_rdma_sharp_plugin/lib/libnccl-net.so",
          "/opt/mellanox/nccl-rdma-sharp-plugins/lib/libnccl-net.so",
          "/usr/lib/x86_64-linux-gnu/libnccl-net.so",
          "/usr/lib/aarch64-linux-gnu/libnccl-net.so",
          "/usr/lib64/libnccl-net.so",
          "/usr/local/lib/libnccl-net.so"};
}

namespace {

std::string find_plugin(const Node& node) {
  for (const std::string& path : collnet_plugin_paths())
    if (has_file(node, path)) return path;
  return "";
}

}  // namespace

void plan_sharp(const Node& node, const Step& step, bool infiniband, std::vector<EnvSetting>& env,
                std::vector<Note>& notes) {
  if (!infiniband) {
    notes.push_back({"sharp", "asked for, but the chosen fabric is not InfiniBand; NCCL_COLLNET_ENABLE is not set"});
    return;
  }
  const std::string plugin = find_plugin(node);
  if (plugin.empty() && !step.container) {
    notes.push_back({"sharp",
                     "asked for, but no libnccl-net.so was found where HPC-X and NVIDIA's packages put it; "
                     "NCCL_COLLNET_ENABLE is not set"});
    return;
  }
  const std::string source = step.container
                                 ? "the image must bring a libnccl-net.so with CollNet; it cannot be seen from the host"
                                 : plugin + " offers CollNet to those that have it on LD_LIBRARY_PATH";
  env.push_back({"NCCL_COLLNET_ENABLE", "1", "sharp.collnet", "Asked for by the keyword sharp; " + source + "."});
  env.push_back({"SHARP_COLL_ENABLE_PCI_RELAXED_ORDERING", "1", "sharp.relaxed-ordering",
                 "With the keyword sharp, as the vendors' SHARP jobs set it."});
}

}  // namespace nccltune
