// SPDX-License-Identifier: Apache-2.0
// Environments as data: what this process was given, and what a launch of workers changes in it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nccltune::bench {

using Variables = std::map<std::string, std::string>;

// In order, the last one of a name wins; nullopt: unset.
using Changes = std::vector<std::pair<std::string, std::optional<std::string>>>;

// This process's own.
Variables own_environment();

Variables changed(Variables environment, const Changes& changes);

// Those that bear on a measurement (NCCL_, UCX_, SHARP_ and ours): what a report keeps of the environment.
std::vector<std::pair<std::string, std::string>> named_settings(const Variables& environment);

}  // namespace nccltune::bench
