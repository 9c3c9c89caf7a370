// SPDX-License-Identifier: Apache-2.0
// A SPANK host for tests: it defines what Slurm exports to plugins (spank_*, slurm_*), with the rules by context that
// Slurm has, and records what a plugin does. One host a process, as in Slurm.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugin/spank_api.h"

namespace fake {

using Environment = std::map<std::string, std::string>;

enum class Level { spank_log, error, info, verbose, debug };

struct LogLine {
  Level level = Level::info;
  std::string text;
};

struct Host {
  // What a test sets.
  spank_context_t context = S_CTX_REMOTE;
  Environment env;                       // the job's (remote)
  bool env_is_null = false;              // S_JOB_ENV gives a null pointer
  std::vector<std::string> odd_entries;  // of S_JOB_ENV, as they stand: no '=', "=x", twice the same name
  uint32_t step_id = 0, node_id = 0, local_tasks = 1;
  std::optional<int> task_id;  // absent outside a task: ESPANK_NOT_TASK
  std::string throws;          // name of a function below that throws std::runtime_error
  std::string throws_int;      // ... that throws an int
  std::string fails;           // ... that answers ESPANK_ERROR

  // What the plugin did.
  std::string hook;  // that runs now
  std::vector<spank_option> options;
  std::vector<LogLine> log;
  int log_file = -1;                // where a task's process writes its lines: they must outlive it
  std::vector<std::string> misuse;  // calls that Slurm forbids where they were made
};

Host& host();

// What such a file holds.
std::vector<LogLine> read_log(int file);

// The lines of one level, joined by newlines.
std::string logged(const std::vector<LogLine>& log, Level level);

}  // namespace fake
