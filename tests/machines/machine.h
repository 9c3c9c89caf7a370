// SPDX-License-Identifier: Apache-2.0
// The recorded machines for unit tests. Each is laid out once a test run, in a folder that goes when the run ends.
#pragma once

#include <string>
#include <vector>

#include "base/root.h"

namespace nccltune::testing {

// The names of all records: "azure-ndv4", ...
std::vector<std::string> machine_names();

// The text of tests/machines/NAME.json.
std::string machine_record(const std::string& name);

// The folder with sys/ and proc/ of a record, or of a capture ("capture-rxe-4numa"). Throws std::runtime_error.
std::string machine_folder(const std::string& name);

// machine_folder opened: `Root root = machine("azure-ndv4");`.
Root machine(const std::string& name);

// A fresh empty folder inside the run's own.
std::string temporary_folder();

}  // namespace nccltune::testing
