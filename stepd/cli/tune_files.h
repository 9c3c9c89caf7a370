// SPDX-License-Identifier: Apache-2.0
// The files that `nccl-tune tune` reads: the space and the workload, both YAML.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/trial.h"
#include "bench/tune_search.h"

namespace nccltune::cli {

// Every value is held against check_value(): a name that is not known, a value out of its bounds or one that is never
// tried is an Error with the line. Sizes may be written as 8M.
Result<bench::Space> parse_space(const std::string& text, const std::string& file);

// The shipped one: installed, or in the source tree of this program. "" when it is nowhere.
std::string default_space();

// What a trial measures, and how much each part of it counts.
struct Workload {
  std::vector<bench::Work> works;
  bench::Objective objective;  // an entry for each size of each work, in order
};

Result<Workload> parse_workload(const std::string& text, const std::string& file);

// The whole of a regular file of at most 256 KiB.
Result<std::string> read_text(const std::string& file);

}  // namespace nccltune::cli
