// SPDX-License-Identifier: Apache-2.0
// The parts of the page that topo, plan and check wrote as JSON. Each takes a document that came from a file: what is
// not as these commands write it is left out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nccltune::cli {

std::string topology_section(const nlohmann::ordered_json& topology);
std::string plan_section(const nlohmann::ordered_json& plan);
std::string findings_section(const nlohmann::ordered_json& findings);

}  // namespace nccltune::cli
