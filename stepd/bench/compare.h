// SPDX-License-Identifier: Apache-2.0
// nccl-tune compare: launches of several settings in random order, and which is better.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/compare_variants.h"
#include "bench/options.h"

namespace nccltune::bench {

struct CompareOptions {
  Options bench;                       // what is measured, and how
  std::vector<std::string> grid;       // --env, as given
  std::string file;                    // of named variants; "": none
  Choice choice;                       // of the baseline
  int launches = 7;                    // of each variant
  std::optional<uint64_t> seed;        // of the order; absent: rank 0 draws one
  double least = 0.01;                 // see Comparison
  std::string json, csv;               // files; "": none
  std::vector<std::string> arguments;  // as given
};

using ParsedCompare = Parsed<CompareOptions>;
ParsedCompare parse_compare_options(int argc, const char* const* argv);

// The variants in the order of block `block`: the same on every task and with every C++ library. Pure.
std::vector<size_t> order_of_block(size_t variants, uint64_t seed, int block);

// Everything after the options; gives the exit status.
int run_compare(const CompareOptions& options);

}  // namespace nccltune::bench
