// SPDX-License-Identifier: Apache-2.0
// Where bytes of a report go. A full disk or a closed pipe is told once, and the others go on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nccltune::bench {

class Sink {
 public:
  // Takes over the descriptor (not closed when `borrowed`).
  Sink(int fd, std::string name, bool borrowed = false);
  ~Sink();
  Sink(Sink&& other) noexcept;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Appends all of it, or tells the failure on stderr, once, and stays silent from then on; a file then ends with what
  // was appended before.
  void write(std::string_view text);
  // Replaces everything from `offset` on; where there is no room for it, by `otherwise`, which must have been there.
  void write_at(uint64_t offset, std::string_view text, std::string_view otherwise = "");

  const std::string& name() const { return name_; }
  bool broken() const { return broken_; }
  bool is_file_of(int fd) const;  // both name the same file

 private:
  void fail(const char* doing);
  int fd_;
  std::string name_;
  bool borrowed_, broken_ = false;
};

// A file that the user named: created or emptied.
Result<Sink> open_named(const std::string& path);

struct JobFile {
  std::optional<Sink> sink;  // absent: not to be written (stdout is that very file)
  std::string note;          // one line to tell, or ""
};

// The job's own output file: `sbatch --output=nccl_test_%j.out` names it so, and the batch script's srun passes our
// stdout on to it. All srun processes of the job that run here as the same user write to `path`, and there is one: ours
// does so too. False where that is not certain: they are on another node, or one of them may go elsewhere. `proc`:
// /proc.
bool is_output_of_srun(const std::string& path, const std::string& job, const std::string& proc = "/proc");

// nccl_test_<job>.out in the working directory; where that exists, nccl_test_<job>.<step>.out, then .1, .2 ... An
// existing file is never opened for writing, a symbolic link never followed. When stdout already is nccl_test_<job>.out
// (srun --output), or comes there by way of srun (sbatch --output), there is nothing to open.
Result<JobFile> open_job_file(const std::string& job, const std::string& step, int stdout_fd);

}  // namespace nccltune::bench
