// SPDX-License-Identifier: Apache-2.0
#include "bench/compare.h"

#include "cli/run_parsed.h"

namespace nccltune::cli {

int compare(int argc, char** argv) {
  return run_parsed(nccltune::bench::parse_compare_options(argc, argv), nccltune::bench::run_compare);
}

}  // namespace nccltune::cli
