// SPDX-License-Identifier: Apache-2.0
// What the user says with --nccl-tune, and the administrator in plugstack.conf. Pure text in, data out: slurmstepd
// parses both as root, so nothing here opens a file or trusts a length.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/step.h"

namespace nccltune {

struct Options {
  enum class Action {
    off,   // leave the step alone
    on,    // export and pin
    show,  // tell the plan, apply nothing
    env,   // export only
    bind   // pin only
  };
  Action action = Action::on;
  bool strict = false;   // a task whose plan cannot be made or applied fails
  bool verbose = false;  // each reason on the task's stderr
  bool sharp = false;
  bool torch = false;
  std::string profile;  // "" for the first that matches

  bool exports() const { return action == Action::on || action == Action::env; }
  bool pins() const { return action == Action::on || action == Action::bind; }
  bool operator==(const Options&) const = default;
};

struct ParsedOptions {
  Options options;             // from the keys that are known
  std::optional<Error> error;  // the first key that is not
};

// A first key that the plugin itself puts before what NCCLTUNE says, when it makes that the option's value: the value
// goes the option's ways then, and is still known to be a default.
constexpr const char* kFromVariable = "from-NCCLTUNE";
bool is_from_variable(const char* argument);

// `argument` of --nccl-tune: keys with commas between, the last of on|off|show|env|bind wins. NULL, "" and "(null)" are
// what Slurm makes of the bare option, by context and release: "on". Longer than 1024 bytes: an error, nothing taken.
ParsedOptions parse_options(const char* argument);

struct Arguments {
  bool on_by_default = false;          // default=on|off: for a step that says nothing
  std::string policy;                  // policy=FILE; "" for the default place
  GpuOrder gpu_order = GpuOrder::pci;  // gpu_order=pci|minor
  std::string root;                    // root=DIR: a recorded machine; "" for the live one
};

struct ParsedArguments {
  Arguments arguments;
  std::vector<Error> errors;
};

// The words behind the plugin's name in plugstack.conf (argv[0] is the first of them).
ParsedArguments parse_arguments(int count, char** words);

}  // namespace nccltune
