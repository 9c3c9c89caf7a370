// SPDX-License-Identifier: Apache-2.0
// The part of the page that nccl-tune pairs wrote: what it found, and the pair matrix as a heat map.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nccltune::cli {

// `pairs`: {"start", "figures", "findings", "end"}, the lines of a file by kind. A line that is not as pairs writes it
// is left out. The map is a table: its cells hold the figures as text, colour comes on top.
std::string pairs_section(const nlohmann::ordered_json& pairs);

}  // namespace nccltune::cli
