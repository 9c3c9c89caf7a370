// SPDX-License-Identifier: Apache-2.0
// Which worker program a task runs, and where it is.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "bench/options.h"

namespace nccltune::bench {

struct ChosenWorker {
  std::string kind;     // "nccl", "host"
  std::string program;  // path
  std::string note;     // why not the GPUs; "" with nccl
};

// nccl where a GPU can be seen and its worker is installed, else host. An error when the one that was asked for is
// missing. `folder`: NCCLTUNE_WORKER_DIR, or "" for beside the tool and libexec.
Result<ChosenWorker> choose_worker(WorkerChoice choice, const std::string& folder);

// For the host worker, which takes NCCL_SOCKET_IFNAME as NCCL does: true when the name is the plugin's (NCCLTUNE_SET)
// and no such interface is here, as where a recorded machine was planned for. A user's own name is never passed over.
bool planned_interface_is_absent(const std::map<std::string, std::string>& environment);

}  // namespace nccltune::bench
