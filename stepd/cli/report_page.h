// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nccltune::cli {

// Whether this build has the chart library that the page carries.
bool has_chart_library();

// One HTML page with all in it, from report_json(): no network, readable without scripts but for the charts, whose
// figures are in tables as well.
std::string report_page(const nlohmann::ordered_json& report);

}  // namespace nccltune::cli
