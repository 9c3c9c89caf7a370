// SPDX-License-Identifier: Apache-2.0
// Options of the commands that measure. What is not wholly a value of its kind is an error that names the option, never
// a default; of an option given twice the last counts.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "bench/options.h"
#include "bench/text.h"

namespace nccltune::bench {

inline constexpr int kInt = std::numeric_limits<int>::max();

// `parse` gives an optional; what it refuses is "NAMES: 'TEXT' is not WHAT".
template <class T, class Parse>
CLI::Option* parsed(CLI::App& app, const std::string& names, T& target, Parse parse, const std::string& what,
                    const std::string& help) {
  return app
      .add_option_function<std::string>(
          names,
          [&target, parse, what, names](const std::string& text) {
            const auto value = parse(text);
            if (!value) throw CLI::ValidationError(names, print("'%s' is not %s", text.c_str(), what.c_str()));
            target = static_cast<T>(*value);
          },
          help)
      ->take_last();
}

// kInt as `high`: no upper bound that a user should hear of.
template <class T>
CLI::Option* integer(CLI::App& app, const std::string& names, T& target, int64_t low, int64_t high,
                     const std::string& help) {
  const std::string what =
      high == kInt ? print("an integer of at least %lld", static_cast<long long>(low))
                   : print("an integer from %lld to %lld", static_cast<long long>(low), static_cast<long long>(high));
  return parsed(
      app, names, target, [low, high](const std::string& text) { return parse_integer(text, low, high); }, what, help);
}

// --worker. "none" measures the start alone and is not told to users.
CLI::Option* worker_option(CLI::App& app, WorkerChoice& worker, bool takes_none = false);

// --inject-fault, for tests: the protocol::Fault of a word; nullopt: none of known_faults().
std::optional<uint32_t> parse_fault(const std::string& word);
std::string known_faults();  // "none, flip, hang, ..."

// "nccl-tune: NAME: WHAT; see nccl-tune COMMAND --help": the line for what no single option can see.
std::string refusal_line(const std::string& name, const std::string& command, const std::string& what);

// Parses a command line into what `app` was told to fill. Not nullopt: the user asked for help, or made a mistake.
struct EndedParse {
  std::string text;
  int status = 0;
};
std::optional<EndedParse> parse_line(CLI::App& app, const std::string& name, const std::string& command, int argc,
                                     const char* const* argv);

}  // namespace nccltune::bench
