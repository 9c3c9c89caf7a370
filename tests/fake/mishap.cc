// SPDX-License-Identifier: Apache-2.0
#include "fake/mishap.h"

#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

// unistd.h is not included: with _FORTIFY_SOURCE it has bodies of its own for what is defined here.
extern "C" {
long syscall(long number, ...);  // NOLINT(readability-redundant-declaration)
int pause();                     // NOLINT(readability-redundant-declaration)
ssize_t read_or_not(int fd, void* buffer, std::size_t size) __asm__("read");
ssize_t read_or_not_checked(int fd, void* buffer, std::size_t size, std::size_t room) __asm__("__read_chk");
}

namespace fake {
namespace {

Mishap now = Mishap::none;
char wanted[256] = "";  // no std::string: a read may come before this file's constructors

bool is_hit(int fd) {
  char name[64], path[4096];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const long length = syscall(SYS_readlinkat, -100 /* AT_FDCWD */, name, path, sizeof path);
  const long end = static_cast<long>(std::strlen(wanted));
  return length >= end && path[0] == '/' && std::memcmp(path + length - end, wanted, end) == 0;
}

// True: the read is to fail.
bool go_wrong() {
  const timespec a_while{0, 20'000'000};
  switch (now) {
    case Mishap::hang:
      while (true) pause();
    case Mishap::slow:
      nanosleep(&a_while, nullptr);
      return false;
    case Mishap::crash:
      signal(SIGSEGV, SIG_DFL);
      raise(SIGSEGV);
      return false;
    default:
      errno = EIO;
      return true;
  }
}

}  // namespace

void let_reads_go_wrong(Mishap mishap, const std::string& end_of_path) {
  std::snprintf(wanted, sizeof wanted, "%s", end_of_path.c_str());
  now = mishap;
}

}  // namespace fake

#pragma GCC visibility push(default)
ssize_t read_or_not(int fd, void* buffer, std::size_t size) {
  if (fake::now != fake::Mishap::none && fake::is_hit(fd) && fake::go_wrong()) return -1;
  return syscall(SYS_read, fd, buffer, size);
}

ssize_t read_or_not_checked(int fd, void* buffer, std::size_t size, std::size_t) {
  return read_or_not(fd, buffer, size);
}
#pragma GCC visibility pop
