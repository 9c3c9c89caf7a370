// SPDX-License-Identifier: Apache-2.0
// Files whose reads go wrong, in this process and its forks: the host's own read(2) stands before libc's.
#pragma once

#include <string>

namespace fake {

enum class Mishap {
  none,
  hang,   // never comes back
  slow,   // takes 20 ms
  fail,   // EIO
  crash,  // SIGSEGV
};

// From now on, on every read of a file whose path ends like this; pipes and sockets have none.
void let_reads_go_wrong(Mishap mishap, const std::string& end_of_path);

}  // namespace fake
