// SPDX-License-Identifier: Apache-2.0
// The one place that includes slurm/spank.h: it declares the hooks outside its own extern "C" block, and they must
// leave this library although everything else in it is hidden.
#pragma once

#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>
}
#pragma GCC visibility pop
