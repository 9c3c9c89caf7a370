// SPDX-License-Identifier: Apache-2.0
// Which worker program a task runs, and where it is.
#pragma once

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

}  // namespace nccltune::bench
