// SPDX-License-Identifier: Apache-2.0
// The commands of `nccl-tune`. Each takes its own argument vector, argv[0] being the command's name, and gives the
// exit status. None throws.
#pragma once

namespace nccltune::cli {

// The exit status of every command; exec has execvp's 126 and 127 beside them.
enum ExitStatus {
  exit_ok = 0,
  exit_failed = 1,      // a check failed, or a measurement is below what was asked
  exit_usage = 2,       // the command line, or a file that it names, is wrong
  exit_cannot_run = 3,  // not here: no GPU, no PMIx, built without NCCL, results cannot be written
  exit_wrong_data = 4,
  exit_rank_died = 5,
};

int topo(int argc, char** argv);
int plan(int argc, char** argv);
int env(int argc, char** argv);
int exec(int argc, char** argv);
int dump(int argc, char** argv);
int check(int argc, char** argv);
int bench(int argc, char** argv);
int compare(int argc, char** argv);
int pairs(int argc, char** argv);
int tune(int argc, char** argv);
int report(int argc, char** argv);
int hostfile(int argc, char** argv);

}  // namespace nccltune::cli
