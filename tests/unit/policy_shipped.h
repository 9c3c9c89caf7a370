// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "policy/policy.h"

namespace nccltune::testing {

// etc/nccl-tune.yaml, parsed.
inline Policy shipped_policy() {
  std::ifstream in(NCCLTUNE_SOURCE_DIR "/etc/nccl-tune.yaml");
  std::ostringstream text;
  text << in.rdbuf();
  Result<Policy> policy = parse_policy(text.str(), "etc/nccl-tune.yaml");
  if (!in || !policy) throw std::runtime_error(policy ? "etc/nccl-tune.yaml cannot be read" : policy.error().text());
  return *policy;
}

}  // namespace nccltune::testing
