// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "node/node.h"
#include "policy/plan.h"
#include "policy/step.h"

namespace nccltune {

// Where the CollNet-capable libnccl-net of HPC-X and of NVIDIA's packages lies (globs). NCCL's own NET/IB has no
// CollNet, so without one of them SHARP cannot work.
std::vector<std::string> collnet_plugin_paths();

// What the opt-in keyword `sharp` asks for, or the note that says why it cannot be had.
// Source: NCCL docs, NCCL_COLLNET_ENABLE; CoreWeave's SHARP job scripts.
void plan_sharp(const Node& node, const Step& step, bool infiniband, std::vector<EnvSetting>& env,
                std::vector<Note>& notes);

}  // namespace nccltune
