// SPDX-License-Identifier: Apache-2.0
// The process that the launcher started, once the supervisor is its child: it waits, and tells what became of a
// supervisor that was killed, crashed or hangs. Otherwise nobody would: a PMIx server (Slurm's mpi/pmix) ends the whole
// step with SIGKILL when a client's connection closes without a word, and so rank 0's report too.
#pragma once

#include <algorithm>
#include <vector>

#include "bench/environment.h"
#include "bench/slate.h"

namespace nccltune::bench {

// What the supervisor, the child, has of its keeper.
struct Kept {
  Slate& slate;
  int socket = -1;  // takes descriptors; -1: there is no keeper
};

// The signal that a supervisor gets when its keeper is gone. To be blocked and read by signalfd.
int keeper_gone_signal();

// Forks before there are threads. Returns in the child, the supervisor; the parent ends with the child's exit status,
// or when it has told why there is none. `timeout`: seconds that others wait for it: it may be stopped for half of
// that, and be without a sign of life for twice as long and a minute.
Kept begin_keeping(const Variables& environment, double timeout);

// This process's open stream sockets.
std::vector<int> stream_sockets();
void hand_over(const Kept& kept, const std::vector<int>& sockets);

// Calls `connect`, and gives copies of the stream sockets that are open only since then to the keeper: their other end
// does not see them close when this process dies.
template <class Connect>
auto with_sockets_kept(const Kept& kept, Connect connect) {
  const std::vector<int> before = stream_sockets();
  auto result = connect();
  std::vector<int> fresh;
  for (const int fd : stream_sockets())
    if (std::find(before.begin(), before.end(), fd) == before.end()) fresh.push_back(fd);
  hand_over(kept, fresh);
  return result;
}

}  // namespace nccltune::bench
