// SPDX-License-Identifier: Apache-2.0
#include "bench/compare.h"

#include <cstdio>

#include "cli/commands.h"

namespace nccltune::cli {

int compare(int argc, char** argv) {
  const nccltune::bench::ParsedCompare parsed = nccltune::bench::parse_compare_options(argc, argv);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.status == exit_ok ? stdout : stderr);
    return parsed.status;
  }
  return nccltune::bench::run_compare(*parsed.options);
}

}  // namespace nccltune::cli
