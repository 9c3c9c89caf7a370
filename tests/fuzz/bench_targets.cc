// SPDX-License-Identifier: Apache-2.0
// What the benchmark's command line takes.
#include "bench/compare.h"
#include "bench/options.h"
#include "bench/pairs_options.h"
#include "bench/text.h"
#include "fuzz/targets.h"

namespace fuzz {
namespace {

using namespace nccltune;

void numbers(std::string_view input) {
  bench::parse_size(input);
  if (const auto seconds = bench::parse_duration(input)) MUST(*seconds >= 0);
  if (const auto fraction = bench::parse_fraction(input)) MUST(*fraction == *fraction);
  if (const auto number = bench::parse_integer(input, 1, 7)) MUST(*number >= 1 && *number <= 7);
  if (const auto real = bench::parse_real(input)) MUST(*real == *real);
}

void bench_options(std::string_view input) {
  std::vector<std::string> words = sections(input, 12);
  while (!words.empty() && words.back().empty()) words.pop_back();
  std::vector<const char*> argv{"bench"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const int count = static_cast<int>(argv.size());
  const bench::ParsedOptions parsed = bench::parse_options(count, argv.data());
  MUST(parsed.options || !parsed.text.empty());
  const bench::ParsedCompare compare = bench::parse_compare_options(count, argv.data());
  MUST(compare.options || !compare.text.empty());
  const bench::ParsedPairsOptions pairs = bench::parse_pairs_options(count, argv.data());
  MUST(pairs.options ? pairs.options->bytes > 0 && pairs.options->gpus > 0 : !pairs.text.empty());
  if (!parsed.options) return;
  MUST(parsed.options->gpus > 0 && parsed.options->threads > 0 && parsed.options->iterations >= 0);
  MUST(parsed.options->min_bytes <= parsed.options->max_bytes);
}

}  // namespace

void add_bench_targets(std::vector<Target>& all) {
  all.push_back({"numbers", numbers, 256});
  all.push_back({"options", bench_options, 2048});
}

}  // namespace fuzz
