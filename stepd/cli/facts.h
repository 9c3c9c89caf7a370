// SPDX-License-Identifier: Apache-2.0
// What every command of the tool starts from: the options --root, --policy, --tasks and their kin, taken to the facts
// of a node, a policy and a step.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/root.h"
#include "node/node.h"
#include "node/read.h"
#include "policy/policy.h"
#include "policy/step.h"

namespace nccltune::cli {

// The command line as given; gather() checks it.
struct FactsOptions {
  std::string root;     // "": this machine
  std::string policy;   // "": the installed file
  std::string profile;  // "": the first that matches
  std::string tasks;    // "": one for each GPU, or the tasks of the Slurm step that this process belongs to
  std::vector<std::string> task_cpus;  // of task 0, 1, ...
  std::vector<std::string> env;        // NAME=VALUE
};

// Where the facts come from.
struct Source {
  Root root;
  Policy policy;
  Environment env;  // what the job has set
  ReadOptions read;
  std::vector<Note> notes;  // of the policy
};

struct Facts {
  Root root;
  Node node;
  Policy policy;
  Step step;
  std::vector<Note> notes;  // of the command line and the policy, for the plan's own
};

void add_root_option(CLI::App& app, FactsOptions& options);
void add_policy_options(CLI::App& app, FactsOptions& options);
void add_step_options(CLI::App& app, FactsOptions& options);

// What the job has set: the process's own environment, which a recorded machine has nothing to do with, and --env.
Result<Environment> environment_of(const FactsOptions& options);

// Opens --root and the policy. Any Error is one of usage: what is no recorded machine (neither a file of dump nor a
// folder with sys or proc), a policy that is wrong, a profile that it does not have.
Result<Source> open_source(const FactsOptions& options);

// Reads all. Any Error is one of usage: a path, a number or a policy that is wrong.
Result<Facts> gather(const FactsOptions& options);

// Parses, and answers --help on stdout. nullopt: go on; else the exit status.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

}  // namespace nccltune::cli
