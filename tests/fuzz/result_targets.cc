// SPDX-License-Identifier: Apache-2.0
// What the tool reads of others: results, logs, spaces, variants, state files, and what tasks and workers tell.
#include <nlohmann/json.hpp>

#include "bench/compare_variants.h"
#include "bench/data_path.h"
#include "bench/digest.h"
#include "bench/expected.h"
#include "bench/frame.h"
#include "bench/hostlist.h"
#include "bench/pairs_wire.h"
#include "bench/pmi2_text.h"
#include "bench/rank_path.h"
#include "bench/record.h"
#include "bench/tune_state.h"
#include "cli/report_run.h"
#include "cli/report_text.h"
#include "cli/table.h"
#include "cli/tune_files.h"
#include "fuzz/targets.h"

namespace fuzz {
namespace {

using namespace nccltune;

// An output of nccl-tests, a JSON document, or anything else that is called one; then figures to hold it against.
void report(std::string_view input) {
  const std::vector<std::string> parts = sections(input, 2);
  const std::vector<cli::Reading> readings{cli::read_report_file("a.out", parts[0]),
                                           cli::read_report_file("b.out", parts[0].substr(parts[0].size() / 2))};
  MUST(readings[0].refused.size() <= 100);
  const std::vector<cli::ExpectedFigure> expected = cli::read_expected(parts[1]);
  MUST(is_plain_text(cli::report_text(readings, expected, cli::Style{})));
  const nlohmann::ordered_json json = cli::report_json(readings, expected);
  MUST(!json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).empty());
}

void expected(std::string_view input) {
  const MemoryFile file(input);
  if (const auto figures = bench::read_expected(file.path()))
    for (const bench::ExpectedFigure& figure : *figures) bench::names_gpu(figure.gpu, "NVIDIA H100 80GB HBM3");
}

// A space, a workload and a file of variants are YAML, and are told apart by nothing: each reader takes the text.
void tune_files(std::string_view input) {
  const std::string text(input);
  const auto space = cli::parse_space(text, "s.yaml");
  MUST(space || is_one_line(space.error().text()));
  const auto workload = cli::parse_workload(text, "w.yaml");
  MUST(workload || is_one_line(workload.error().text()));
  if (workload) MUST(!workload->objective.weights.empty());
  const auto variants = bench::variants_of_file(text, "v.yaml");
  MUST(variants || is_one_line(variants.error().text()));
  const auto grid = bench::variants_of_grid(sections(input, 3));
  MUST(grid || is_one_line(grid.error().text()));
}

void journal(std::string_view input) {
  const bench::Identity identity{{"space", "a"}};
  const auto parsed = bench::parse_journal(std::string(input), "j", identity);
  if (!parsed) return;
  const std::string text = bench::journal_text(identity, *parsed);
  const auto again = bench::parse_journal(text, "j", identity);
  MUST(again && bench::journal_text(identity, *again) == text);
}

void nccl_log(std::string_view input) {
  const std::string log(input);
  const bench::DataPath path = bench::parse_data_path(log);
  for (const std::string& line : bench::describe_data_path(path)) MUST(line.find('\n') == std::string::npos);
  MUST(bench::telling_lines(log, 5).size() <= 5);
}

// A worker that crashes can write anything; so can a task of another build.
void words(std::string_view input) {
  bench::FrameReader reader;
  for (std::string_view half : {input.substr(0, input.size() / 2), input.substr(input.size() / 2)}) {
    reader.feed(half);
    for (auto message = reader.next(); message && *message; message = reader.next()) continue;
  }
  if (const auto card = bench::unpack_card(input)) MUST(bench::unpack_card(bench::pack(*card)));
  if (const auto reports = bench::unpack_reports(input)) MUST(bench::unpack_reports(bench::pack(*reports)));
  if (const auto plan = bench::unpack_plan(input, 9))
    for (const auto& pair : plan->pairs) MUST(pair.a >= 0 && pair.a < 9 && pair.b >= 0 && pair.b < 9);
  if (const auto record = bench::unpack(input)) MUST(bench::unpack(bench::pack(*record)));
  if (const auto digest = bench::unpack_digest(input)) MUST(bench::unpack_digest(bench::pack(*digest)));
  if (const auto path = bench::unpack_path(input)) MUST(bench::pack(*path).size() <= bench::kMostBytes);
}

// Slurm's lists of hosts and PMI-2's values.
void lists(std::string_view input) {
  const std::vector<std::string> hosts = bench::expand_hosts(input);
  MUST(hosts.size() <= 65536);
  if (hosts.size() < 512 && input.size() < 4096) bench::compress_hosts(hosts);
  if (const auto nodes = bench::read_process_mapping(input, 64)) MUST(nodes->size() == 64);
  const std::vector<std::string> pieces = bench::to_pieces(input);
  MUST(bench::from_pieces(pieces) == std::string(input) && bench::pieces_of(pieces[0]) == pieces.size());
  bench::from_pieces(sections(input, 2));
  bench::pieces_of(input);
}

}  // namespace

void add_result_targets(std::vector<Target>& all) {
  for (const Target& target :
       {Target{"report", report, 65536}, Target{"expected", expected, 16384}, Target{"tune-files", tune_files, 65536},
        Target{"journal", journal, 16384}, Target{"nccl-log", nccl_log, 65536}, Target{"words", words, 16384},
        Target{"lists", lists, 8192}})
    all.push_back(target);
}

}  // namespace fuzz
