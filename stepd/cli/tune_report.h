// SPDX-License-Identifier: Apache-2.0
// What a search found, in words.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/trial.h"
#include "bench/tune_search.h"
#include "bench/tune_state.h"
#include "bench/tune_verdict.h"

namespace nccltune::cli {

struct TuneStory {
  std::string command, date, version;
  std::string machine;  // "16 ranks on 2 nodes, NVIDIA H200, NCCL 2.28.3"
  std::string today;    // "the plan, profile oci", "NCCL's defaults"
  std::string space_file;
  double budget = 0;
  std::vector<bench::Work> works;
  std::vector<std::pair<std::string, std::string>> left_out;  // variables that are not tried here, and why
  double min_gain = 0.01;
};

std::string works_text(const std::vector<bench::Work>& works);  // "all_reduce, 1 MiB to 1 GiB in 6 sizes"

// One sentence with the figures, for the profile's `why`.
std::string why_text(const TuneStory& story, const bench::Search& search, const bench::Gain& gain);

// The whole report. `gain`: of the deciding launches, where there were any.
std::string report_text(const TuneStory& story, const bench::Space& space, const bench::Search& search,
                        const std::optional<bench::Gain>& gain, bool verbose);
// The table of sizes alone.
std::vector<std::string> size_lines(const TuneStory& story, const bench::Search::Decision& decision);
// What each variable of the setting costs elsewhere.
std::vector<std::string> risk_lines(const bench::Space& space, const bench::Setting& setting);

std::string report_json(const TuneStory& story, const bench::Space& space, const bench::Search& search,
                        const std::optional<bench::Gain>& gain, const bench::Journal& journal);

}  // namespace nccltune::cli
