// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <utility>

#include "plugin/fault.h"

namespace nccltune {

// A positive code of a required plugin makes Slurm before 25.05 skip the plugins behind it and run the task all the
// same: out of its container, if one of them was pyxis. So a hook gives 0, or this.
constexpr int kFail = -1;

// The only way from Slurm into our code. An exception that left a hook would abort slurmstepd; here it is kept in
// `fault` and the hook gives 0. What `body` returns is passed on as 0 or kFail: only task_init's body, under strict,
// gives kFail (a failing init drains the node, and user_init's failure on 22.05 ends in a job that did not run and
// exits 0).
template <class Body>
int guard(const char* hook, FirstFault& fault, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)() < 0 ? kFail : 0;
  } catch (const std::exception& e) {
    fault.keep(hook, e.what());
  } catch (...) {
    fault.keep(hook, "an exception of unknown type");
  }
  return 0;
}

}  // namespace nccltune
