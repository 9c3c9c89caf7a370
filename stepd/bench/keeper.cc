// SPDX-License-Identifier: Apache-2.0
#include "bench/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "bench/obituary.h"
#include "bench/text.h"
#include "bench/worker_process.h"

namespace nccltune::bench {
namespace {

constexpr int kTick = 200;           // ms
constexpr size_t kMostSockets = 64;  // a PMIx client has one or two
constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// Both of these count ticks of this process's own, not the clock: a step that is suspended and resumed stops the
// keeper too.
struct Watch {
  pid_t child;
  uint64_t beats = 0;
  double silent = 0, stopped = 0;  // seconds
  bool is_stopped = false;

  // What is wrong with a child that still exists; "": nothing.
  std::string look(const Slate& slate, double timeout) {
    const double tick = kTick / 1000.0;
    stopped = is_stopped ? stopped + tick : 0;
    const uint64_t now = slate.beats();
    silent = now == beats ? silent + tick : 0;
    beats = now;
    if (stopped > timeout / 2) return print("was stopped (SIGSTOP) for %.0f s", stopped);
    if (silent > 2 * timeout + 60) return print("gave no sign of life for %.0f s", silent);
    return "";
  }
};

// Takes what descriptors there are; they stay open until this process ends.
void take_sockets(int socket) {
  char byte;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostSockets * sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  while (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) > 0) message.msg_controllen = sizeof control;
}

// The exit status, or how it died; nullopt: it lives.
struct End {
  int status;
};
std::optional<End> wait_for_child(Watch& watch) {
  int status = 0;
  while (waitpid(watch.child, &status, WNOHANG | WUNTRACED | WCONTINUED) == watch.child) {
    if (WIFSTOPPED(status))
      watch.is_stopped = true;
    else if (WIFCONTINUED(status))
      watch.is_stopped = false;
    else
      return End{status};
  }
  return std::nullopt;
}

[[noreturn]] void keep(pid_t child, int socket, int signals, const Slate& slate, const Variables& environment,
                       double timeout) {
  prctl(PR_SET_NAME, "nccl-tune-keep");
  Watch watch{child};
  for (;;) {
    pollfd waits[] = {{signals, POLLIN, 0}, {socket, POLLIN, 0}};
    const int ready = ::poll(waits, 2, kTick);
    signalfd_siginfo info;
    while (::read(signals, &info, sizeof info) == sizeof info)
      if (info.ssi_signo != SIGCHLD) ::kill(child, static_cast<int>(info.ssi_signo));
    take_sockets(socket);
    const auto end = wait_for_child(watch);
    if (end && WIFEXITED(end->status)) _exit(WEXITSTATUS(end->status));
    if (end) _exit(tell_in_its_place(environment, slate, "was " + describe_status(end->status), timeout));
    if (ready != 0) continue;
    const std::string trouble = watch.look(slate, timeout);
    if (trouble.empty()) continue;
    ::kill(child, SIGKILL);  // and its workers with it
    _exit(tell_in_its_place(environment, slate, trouble + " and was ended", timeout));
  }
}

}  // namespace

int keeper_gone_signal() { return SIGRTMIN + 1; }

Kept begin_keeping(const Variables& environment, double timeout) {
  Kept kept{Slate::make()};
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return kept;
  sigset_t mask, before;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  for (const int number : kForwarded) sigaddset(&mask, number);
  sigaddset(&mask, keeper_gone_signal());
  sigprocmask(SIG_BLOCK, &mask, &before);  // what comes from now on is read by one of the two
  const int signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  std::fflush(nullptr);
  const pid_t keeper = getpid();
  const pid_t child = signals < 0 ? -1 : fork();
  if (child > 0) {
    ::close(ends[1]);
    keep(child, ends[0], signals, kept.slate, environment, timeout);
  }
  if (signals >= 0) ::close(signals);
  ::close(ends[0]);
  if (child < 0) {
    ::close(ends[1]);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return kept;
  }
  prctl(PR_SET_PDEATHSIG, keeper_gone_signal());
  if (getppid() != keeper) _exit(1);  // it died before the line above
  sigaddset(&before, keeper_gone_signal());
  sigprocmask(SIG_SETMASK, &before, nullptr);
  kept.socket = ends[1];
  return kept;
}

std::vector<int> stream_sockets() {
  std::vector<int> sockets;
  std::error_code fault;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", fault)) {
    const auto fd = parse_integer(entry.path().filename().string(), 0, 1 << 30);
    int type = 0;
    socklen_t length = sizeof type;
    sockaddr_storage peer;
    socklen_t peer_length = sizeof peer;
    if (fd && getsockopt(static_cast<int>(*fd), SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM &&
        getpeername(static_cast<int>(*fd), reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0)
      sockets.push_back(static_cast<int>(*fd));
  }
  return sockets;
}

void hand_over(const Kept& kept, const std::vector<int>& sockets) {
  if (kept.socket < 0 || sockets.empty()) return;
  const size_t count = std::min(sockets.size(), kMostSockets);
  char byte = 's';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostSockets * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(head), sockets.data(), count * sizeof(int));
  sendmsg(kept.socket, &message, MSG_NOSIGNAL);
}

}  // namespace nccltune::bench
