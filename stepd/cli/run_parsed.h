// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>

#include "bench/options.h"
#include "cli/commands.h"

namespace nccltune::cli {

// Runs a command with what was parsed; else says the help or the mistake, and gives its exit status.
template <class Options, class Run>
int run_parsed(const nccltune::bench::Parsed<Options>& parsed, Run run) {
  if (parsed.options) return run(*parsed.options);
  std::fputs(parsed.text.c_str(), parsed.status == exit_ok ? stdout : stderr);
  return parsed.status;
}

}  // namespace nccltune::cli
