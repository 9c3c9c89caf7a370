// SPDX-License-Identifier: Apache-2.0
// Before every source of `make coverage`: exit(3) writes the counters and _exit(2) does not, so a fork's end would lose
// them. No exit(3) in its place: that runs the destructors of what the parent still uses.
#pragma once

#include <unistd.h>

extern "C" void __gcov_dump();

[[noreturn]] inline void write_counters_and_exit(int status) {
  __gcov_dump();
  _exit(status);
}

#define _exit write_counters_and_exit
