// SPDX-License-Identifier: Apache-2.0
#include "bench/step.h"

#include <sys/signalfd.h>

#include <csignal>
#include <cstdio>

#include "bench/keeper.h"

namespace nccltune::bench {

Result<Step> open_step(const Variables& environment, WorkerChoice choice, double timeout) {
  const auto folder = environment.find("NCCLTUNE_WORKER_DIR");
  auto worker = choose_worker(choice, folder == environment.end() ? "" : folder->second);
  if (!worker) return worker.error();

  const Kept kept = begin_keeping(environment, timeout);
  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, keeper_gone_signal()}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before PMIx starts its thread, which inherits it
  const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);

  auto world = with_sockets_kept(kept, [&] { return open_world(environment, in_seconds(timeout)); });
  if (!world) return world.error();
  (*world)->keep_on(kept.slate);
  if ((*world)->place().rank == 0 && !worker->note.empty())
    // Its first clause: in a job's output it stands beside the report, where NVIDIA/cloudai's grading takes more than
    // ten words for a row. The report has the whole.
    std::fprintf(stderr, "nccl-tune: %s\n", worker->note.substr(0, worker->note.find(';')).c_str());
  return Step{*world->release(), std::move(*worker), signal_fd};
}

}  // namespace nccltune::bench
