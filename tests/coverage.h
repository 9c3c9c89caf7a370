// SPDX-License-Identifier: Apache-2.0
// Before every source of `make coverage`: the counters are written by exit(3), and a fork's end must not lose them.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define _exit exit
