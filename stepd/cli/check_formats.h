// SPDX-License-Identifier: Apache-2.0
// The findings of `nccl-tune check` in the forms that people and schedulers read.
#pragma once

#include <string>
#include <vector>

#include "check/finding.h"
#include "cli/table.h"

namespace nccltune::cli {

std::string findings_text(const std::vector<check::Finding>& findings, const Style& style);
std::string findings_json(const std::string& host, const std::vector<check::Finding>& findings);

// One line a fault, failures first, in the manner of LBNL's Node Health Check; one line that counts when there is none.
std::string findings_nhc(const std::string& host, const std::vector<check::Finding>& findings);

// The text exposition format of Prometheus. Ends with the time, so that a textfile that is not written any more shows.
std::string findings_prometheus(const std::vector<check::Finding>& findings);

}  // namespace nccltune::cli
