// SPDX-License-Identifier: Apache-2.0
// What a supervisor is at, in memory that outlives it: its keeper reads there what to tell once the supervisor is gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nccltune::bench {

class Slate {
 public:
  enum Page {
    state,     // as describe_own_state says it
    place,     // "rank host": of the task's first worker
    alarm,     // the key of the alarm in force
    done,      // rank 0's key that says that the report is written, and nobody needed any more
    table,     // rank 0: the file with the table, without stdout; "": none
    document,  // rank 0: the JSON
    owed,      // keys that other tasks wait for, one a line, where the run does not end with this task
    farewell,  // then: the key that each task puts when it has nothing more to do
    journal,   // then, rank 0: the file of JSON lines
    kPages,
  };
  static constexpr size_t kPageBytes = 16384;  // longer texts are cut

  // Shared with children of this process; never freed.
  static Slate& make();

  // One writer. A reader finds the last text that is whole, whenever the writer died.
  void write(Page page, std::string_view text);
  std::string read(Page page) const;

  // The writer still gets around.
  void beat() { beats_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t beats() const { return beats_.load(std::memory_order_relaxed); }

 private:
  struct Text {
    std::atomic<uint32_t> current;  // of the two
    uint32_t length[2];
    char bytes[2][kPageBytes];
  };
  std::atomic<uint64_t> beats_;
  Text texts_[kPages];
};

}  // namespace nccltune::bench
