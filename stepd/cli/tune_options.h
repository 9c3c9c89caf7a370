// SPDX-License-Identifier: Apache-2.0
// The command line of `nccl-tune tune`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/tune_search.h"
#include "cli/facts.h"

namespace nccltune::cli {

struct TuneOptions {
  bench::Options base;  // collective, sizes, how each is measured
  bench::SearchOptions search;
  std::string space, workload;                 // files; "": the shipped one, none
  std::string out = "nccl-tune-tuned.yaml";    // the profile
  std::string state = "nccl-tune-tune.state";  // to go on from; "none": no file
  std::string json;
  bool list = false, verbose = false;
  FactsOptions facts;
};

// nullopt in the first: exit with the second.
std::pair<std::optional<TuneOptions>, int> parse_tune_options(int argc, char** argv);

}  // namespace nccltune::cli
