// SPDX-License-Identifier: Apache-2.0
// One worker: started, fed, watched, and always ended with its supervisor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/clock.h"
#include "bench/environment.h"
#include "bench/frame.h"

namespace nccltune::bench {

class WorkerProcess {
 public:
  struct Start {
    std::string program;
    std::string label;    // "rank 3", before every line of its output
    Changes environment;  // over ours
  };
  static Result<std::unique_ptr<WorkerProcess>> start(const Start& start);
  ~WorkerProcess();  // kills and reaps
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Writes a whole command; false when the pipe is closed or still full at the deadline.
  bool send(protocol::Kind kind, uint32_t sequence, std::string_view payload, Deadline deadline);

  // Descriptors to poll for reading; -1 once at their end.
  int reply_fd() const { return reply_; }
  int output_fd() const { return output_; }

  // Reads what there is. An error: the stream is broken.
  Result<std::vector<Message>> read_replies();
  void read_output();

  pid_t pid() const { return pid_; }
  // "killed by SIGSEGV", "exited with status 1"; nullopt: it runs. Waits until the deadline for the end.
  std::optional<std::string> ended(Deadline deadline);
  void kill_now();
  // The last lines that it wrote on stdout and stderr.
  std::vector<std::string> last_lines() const { return {lines_.begin(), lines_.end()}; }
  bool quiet = false;  // keep its lines, but pass none on

 private:
  WorkerProcess() = default;
  void take_line(std::string line);
  pid_t pid_ = -1;
  int command_ = -1, reply_ = -1, output_ = -1;
  std::string label_, partial_;
  std::deque<std::string> lines_;
  FrameReader reader_;
  std::optional<int> status_;
};

// Of waitpid, in words.
std::string describe_status(int status);

}  // namespace nccltune::bench
