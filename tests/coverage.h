// SPDX-License-Identifier: Apache-2.0
// Before every source of `make coverage`: exit(3) writes the counters and _exit(2) does not, so a fork's end would lose
// them. exit(3) in its place would run the destructors of what the parent still uses, such as a unit test's folder; but
// the host of tests/fake has to, for a library that was loaded later writes its own counters nowhere else.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cstring>

extern "C" void __gcov_dump();

[[noreturn]] inline void write_counters_and_exit(int status, const char* source) {
  if (std::strncmp(source, "tests/fake/", 11) == 0) std::exit(status);
  __gcov_dump();
  _exit(status);
}

#define _exit(status) write_counters_and_exit(status, __BASE_FILE__)
