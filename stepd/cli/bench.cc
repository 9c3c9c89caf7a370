// SPDX-License-Identifier: Apache-2.0
#include "bench/session.h"
#include "cli/bench_node.h"
#include "cli/run_parsed.h"

namespace nccltune::cli {

int bench(int argc, char** argv) {
  return run_parsed(nccltune::bench::parse_options(argc, argv), [](const nccltune::bench::Options& options) {
    return nccltune::bench::run_bench(options, view_node);
  });
}

}  // namespace nccltune::cli
