// SPDX-License-Identifier: Apache-2.0
#include "bench/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr size_t kKeptLines = 40;
constexpr size_t kLongestLine = 4096;

struct Pipe {
  int read = -1, write = -1;
  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    // Above the descriptors that the worker gets, so that dup2 in the child never overwrites one that it still needs.
    read = fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
    write = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    ::close(ends[0]);
    ::close(ends[1]);
    return read >= 0 && write >= 0;
  }
  void close() {
    if (read >= 0) ::close(read);
    if (write >= 0) ::close(write);
    read = write = -1;
  }
};

std::vector<std::string> environment_with(const Changes& changes) {
  std::vector<std::string> result;
  for (const auto& [name, value] : changed(own_environment(), changes)) result.push_back(name + "=" + value);
  return result;
}

// Between fork and exec: nothing but system calls, for other threads (PMIx) may have held any lock.
[[noreturn]] void become_worker(const char* program, char* const* environment, int command, int reply, int output,
                                pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  dup2(command, protocol::kCommandFd);
  dup2(reply, protocol::kReplyFd);
  syscall(SYS_close_range, protocol::kReplyFd + 1, ~0u, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  char* const arguments[] = {const_cast<char*>(program), nullptr};
  execve(program, arguments, environment);
  _exit(127);
}

void make_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

std::string describe_status(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const char* name = sigabbrev_np(signal);
    std::string text = name ? print("killed by SIG%s", name) : print("killed by signal %d", signal);
    if (WCOREDUMP(status)) text += " (core dumped)";
    // The kernel's out-of-memory killer and a cgroup's limit send this one, and nothing else says so.
    if (signal == SIGKILL) text += ", by hand or for want of memory";
    return text;
  }
  if (WEXITSTATUS(status) == 127) return "could not be started (exit status 127)";
  return print("exited with status %d", WEXITSTATUS(status));
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const Start& start) {
  Pipe command, reply, output;
  if (!command.open() || !reply.open() || !output.open()) {
    const int fault = errno;
    command.close(), reply.close(), output.close();
    return Error{start.label, "cannot make a pipe for the worker", std::strerror(fault), ""};
  }
  std::vector<std::string> texts = environment_with(start.environment);
  std::vector<char*> environment;
  environment.reserve(texts.size() + 1);
  for (std::string& text : texts) environment.push_back(text.data());
  environment.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0)
    become_worker(start.program.c_str(), environment.data(), command.read, reply.write, output.write, parent);
  const int fault = errno;
  ::close(command.read);
  ::close(reply.write);
  ::close(output.write);
  if (pid < 0) {
    ::close(command.write), ::close(reply.read), ::close(output.read);
    return Error{start.label, "cannot start the worker", std::strerror(fault), ""};
  }
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess);
  worker->pid_ = pid;
  worker->command_ = command.write;
  worker->reply_ = reply.read;
  worker->output_ = output.read;
  worker->label_ = start.label;
  for (const int fd : {command.write, reply.read, output.read}) make_nonblocking(fd);
  return worker;
}

WorkerProcess::~WorkerProcess() {
  kill_now();
  ended(in_seconds(5));
  for (const int fd : {command_, reply_, output_})
    if (fd >= 0) ::close(fd);
}

bool WorkerProcess::send(protocol::Kind kind, uint32_t sequence, std::string_view payload, Deadline deadline) {
  const std::string bytes = frame(kind, sequence, payload);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(command_, bytes.data() + done, bytes.size() - done);
    if (n > 0) {
      done += n;
    } else if (n < 0 && errno == EAGAIN && !passed(deadline)) {
      pollfd room{command_, POLLOUT, 0};
      ::poll(&room, 1, 100);
    } else if (n < 0 && errno != EINTR) {
      return false;
    }
  }
  return true;
}

Result<std::vector<Message>> WorkerProcess::read_replies() {
  char bytes[65536];
  while (reply_ >= 0) {
    const ssize_t n = ::read(reply_, bytes, sizeof bytes);
    if (n > 0) {
      reader_.feed({bytes, static_cast<size_t>(n)});
    } else if (n == 0) {
      ::close(std::exchange(reply_, -1));
    } else if (errno != EINTR) {
      break;
    }
  }
  std::vector<Message> messages;
  for (;;) {
    auto message = reader_.next();
    if (!message) return message.error();
    if (!*message) return messages;
    messages.push_back(std::move(**message));
  }
}

void WorkerProcess::take_line(std::string line) {
  if (line.size() > kLongestLine) line.resize(kLongestLine);
  if (!quiet) std::fprintf(stderr, "[%s] %s\n", label_.c_str(), line.c_str());
  lines_.push_back(std::move(line));
  if (lines_.size() > kKeptLines) lines_.pop_front();
}

void WorkerProcess::read_output() {
  char bytes[65536];
  while (output_ >= 0) {
    const ssize_t n = ::read(output_, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    if (n == 0) {
      if (!partial_.empty()) take_line(std::exchange(partial_, ""));
      ::close(std::exchange(output_, -1));
      return;
    }
    partial_.append(bytes, n);
    for (size_t end; (end = partial_.find('\n')) != std::string::npos; partial_.erase(0, end + 1))
      take_line(partial_.substr(0, end));
    if (partial_.size() > kLongestLine) take_line(std::exchange(partial_, ""));
  }
}

std::optional<std::string> WorkerProcess::ended(Deadline deadline) {
  while (!status_) {
    int status = 0;
    const pid_t got = waitpid(pid_, &status, WNOHANG);
    if (got == pid_ || (got < 0 && errno != EINTR)) {
      status_ = got == pid_ ? status : 0;
    } else if (passed(deadline)) {
      return std::nullopt;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return describe_status(*status_);
}

void WorkerProcess::kill_now() {
  if (!status_) ::kill(pid_, SIGKILL);
}

}  // namespace nccltune::bench
