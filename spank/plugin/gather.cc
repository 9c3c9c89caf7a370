// SPDX-License-Identifier: Apache-2.0
#include "plugin/gather.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/fd.h"
#include "node/wire.h"

namespace nccltune {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What the reader's first byte says of the bytes after it.
constexpr char kNode = 'n';                  // the address, a NUL, the node
constexpr char kError = 'e';                 // the parts of an Error, a NUL after each
constexpr std::size_t kMaxReply = 16 << 20;  // a node of 16 GPUs has 40 KB

// A page that the reader writes and the parent reads.
class SharedWatch {
 public:
  SharedWatch() : page_(mmap(nullptr, sizeof(PathWatch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  SharedWatch(const SharedWatch&) = delete;
  SharedWatch& operator=(const SharedWatch&) = delete;
  ~SharedWatch() {
    if (get() != nullptr) munmap(page_, sizeof(PathWatch));
  }
  PathWatch* get() const { return page_ == MAP_FAILED ? nullptr : static_cast<PathWatch*>(page_); }

 private:
  void* page_;
};

// ---- the reader -----------------------------------------------------------------------------------------------------

// A reader that hangs would hold them open as long, and slurmstepd waits for the end of its tasks' streams; its own
// stderr is the first task's. Without close_range (before Linux 5.9) one by one, up to a limit that is seldom above
// 1,024 there.
void close_all_but(int kept) {
  const auto close_from_to = [](unsigned first, unsigned last) {
    if (first > last) return;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, last, 0U) == 0) return;
#endif
    const long limit = std::clamp(sysconf(_SC_OPEN_MAX), 256L, 65536L);
    for (unsigned fd = first; fd <= last && fd < static_cast<unsigned>(limit); ++fd) ::close(static_cast<int>(fd));
  };
  if (kept > 0) close_from_to(0, static_cast<unsigned>(kept) - 1);
  close_from_to(static_cast<unsigned>(kept) + 1, ~0U);
}

std::string reply_of(const Result<Facts>& facts) {
  if (facts) return kNode + facts->node_address + '\0' + to_bytes(facts->node);
  const Error& error = facts.error();
  std::string reply(1, kError);
  for (const std::string& part : {error.object, error.what, error.reason, error.remedy}) reply += part + '\0';
  return reply;
}

void bound_memory(std::size_t bytes) {
  const Fd file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  unsigned long pages = 0;  // the sixth number: data and stack, which is what RLIMIT_DATA counts and a little more
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return;
  if (std::sscanf(text, "%*s %*s %*s %*s %*s %lu", &pages) != 1) return;
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + bytes);
  setrlimit(RLIMIT_DATA, &limit);
}

std::string object_of(const PathWatch* watch) {
  PathWatch copy;
  if (watch != nullptr) std::memcpy(copy.path, watch->path, sizeof copy.path - 1);
  return copy.path[0] == '\0' ? "this node's facts" : copy.path;
}

[[noreturn]] void be_the_reader(const FactsRequest& request, PathWatch* watch, int fd, std::size_t memory) noexcept {
  bound_memory(memory);
  std::string reply;
  try {
    reply = reply_of(read_facts(request, watch));
  } catch (const std::bad_alloc&) {
    reply =
        reply_of(Error{object_of(watch), "reading it takes more memory than " + std::to_string(memory >> 20) + " MiB",
                       "", "nothing is tuned"});
  } catch (const std::exception& e) {
    reply = reply_of(Error{"this node's facts", "cannot be read", e.what(), ""});
  } catch (...) {
    reply = reply_of(Error{"this node's facts", "cannot be read", "an exception of unknown type", ""});
  }
  (void)write_all(fd, reply);  // a parent that has gone wants no answer
  _exit(0);
}

// Ends with the parent, if it can end.
void end_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

// Between slurmstepd and the reader, so that the latter can be disowned: when this process is killed, a reader that
// cannot be is init's. As slurmstepd's own child it would be taken for a task's process (proctrack/linuxproc goes by
// parents), and the step would not end before it. Its exit status is the signal that ended the reader, or 0.
[[noreturn]] void be_the_keeper(const FactsRequest& request, PathWatch* watch, int fd, std::size_t memory,
                                pid_t parent) noexcept {
  end_with(parent);
  signal(SIGPIPE, SIG_IGN);
  close_all_but(fd);
  const pid_t self = getpid();
  const pid_t reader = fork();
  if (reader == 0) {
    end_with(self);
    be_the_reader(request, watch, fd, memory);
  }
  ::close(fd);
  int status = 0;
  while (reader > 0 && waitpid(reader, &status, 0) < 0 && errno == EINTR) continue;
  _exit(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

// ---- who waits for it -----------------------------------------------------------------------------------------------

// All that comes up to the end of the stream, or more than kMaxReply of it; nullopt when neither is there by `end`.
std::optional<std::string> read_until(int fd, Clock::time_point end) {
  std::string reply;
  std::array<char, 65536> chunk;
  while (reply.size() <= kMaxReply) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    pollfd waited{fd, POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : poll(&waited, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return reply;
    reply.append(chunk.data(), static_cast<std::size_t>(n));
  }
  return reply;
}

// 0, or the signal that ended the reader. Its end of the pipe is closed, so it is past all that could hold it.
int signal_of(pid_t keeper) {
  int status = 0;
  while (waitpid(keeper, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : SIGKILL;
}

std::optional<Facts> facts_in(std::string_view reply) {
  const std::size_t end = reply.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  std::optional<Node> node = from_bytes(reply.substr(end + 1));
  if (!node) return std::nullopt;
  return Facts{std::move(*node), std::string(reply.substr(0, end))};
}

std::optional<Error> error_in(std::string_view reply) {
  Error error;
  for (std::string* part : {&error.object, &error.what, &error.reason, &error.remedy}) {
    const std::size_t end = reply.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    *part = reply.substr(0, end);
    reply.remove_prefix(end + 1);
  }
  return error;
}

}  // namespace

Result<Facts> gather_facts(const FactsRequest& request, milliseconds deadline, std::size_t memory) {
  const Clock::time_point end = Clock::now() + deadline;
  const SharedWatch watch;
  const pid_t parent = getpid();
  int ends[2] = {-1, -1};
  const bool piped = pipe2(ends, O_CLOEXEC) == 0;
  const Fd from(ends[0]);
  Fd to(ends[1]);
  const pid_t keeper = piped ? fork() : -1;
  if (keeper == 0) be_the_keeper(request, watch.get(), to.get(), memory, parent);
  if (keeper < 0) return Error{object_of(watch.get()), "cannot be read", std::strerror(errno), "nothing is tuned"};
  to.close();
  const std::optional<std::string> reply = read_until(from.get(), end);
  const bool too_large = reply && reply->size() > kMaxReply;
  if (!reply || too_large) kill(keeper, SIGKILL);
  const int ended_by = signal_of(keeper);
  if (!reply)
    return Error{object_of(watch.get()),
                 "not read within " + std::to_string(deadline.count()) + " ms: a driver or a file system hangs", "",
                 "nothing is tuned"};
  if (too_large)
    return Error{"this node's facts", "larger than " + std::to_string(kMaxReply >> 20) + " MiB", "",
                 "nothing is tuned"};
  const std::string_view rest = std::string_view(*reply).substr(reply->empty() ? 0 : 1);
  if (reply->starts_with(kNode))
    if (std::optional<Facts> facts = facts_in(rest)) return std::move(*facts);
  if (reply->starts_with(kError))
    if (std::optional<Error> error = error_in(rest)) return std::move(*error);
  return Error{object_of(watch.get()), "the reader of this node's facts ended here",
               ended_by > 0 ? strsignal(ended_by) : "", "nothing is tuned"};
}

}  // namespace nccltune
