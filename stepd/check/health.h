// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check/finding.h"

namespace nccltune::check {

// What the driver's library said; null after a skip that tells why there is nothing, and where there is no GPU.
const DriverFacts* driver_facts(const Subject& subject, Report& report);

// The version of NCCL that a program of this environment loads: "2.28.3"; "" on a recorded machine and where none is
// found.
std::string library_text(const Subject& subject);

}  // namespace nccltune::check
