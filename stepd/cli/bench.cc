// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "bench/options.h"
#include "bench/session.h"
#include "cli/bench_node.h"
#include "cli/commands.h"

namespace nccltune::cli {

int bench(int argc, char** argv) {
  const nccltune::bench::ParsedOptions parsed = nccltune::bench::parse_options(argc, argv);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.status == exit_ok ? stdout : stderr);
    return parsed.status;
  }
  return nccltune::bench::run_bench(*parsed.options, view_node);
}

}  // namespace nccltune::cli
