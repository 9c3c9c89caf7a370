// SPDX-License-Identifier: Apache-2.0
// What is asked of the live machine beside its files.
#pragma once

#include "check/driver_facts.h"
#include "check/kernel_log.h"
#include "check/verbs_facts.h"
#include "node/node.h"
#include "policy/plan.h"

namespace nccltune::check {

struct Hardware {
  DriverFacts driver;
  VerbsFacts verbs;
  KernelLog log;
};

// Asks for what this node has: the driver's library where there is a GPU, libibverbs for the used HCAs.
Hardware read_hardware(const Node& node, const Plan& plan);

}  // namespace nccltune::check
