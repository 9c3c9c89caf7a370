// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/root.h"
#include "node/node.h"

namespace nccltune {

struct ReadOptions {
  std::string home;                         // of the job's user, for .nccl.conf; "" when unknown
  std::string nccl_conf_file;               // NCCL_CONF_FILE of the job; beats home's file when not empty
  std::vector<std::string> probe;           // paths or globs whose presence the policy asks for (Policy::files())
  std::vector<std::string> topology_files;  // vendor topology files to parse where they exist
  // Also what no plan asks for but a listing or a check does: PCI link speeds, the bridges' own attributes, firmware
  // and board of HCAs, MTU. Without them a bridge is known by its place in the paths alone; saves about half the time.
  bool details = true;
  bool probe_access = false;  // live: test with access(2) which /dev/infiniband/uverbsN this process may open
};

// Reads the whole node. Never fails: what cannot be read is absent in the result, with a note where a person should
// know.
Node read_node(const Root& root, const ReadOptions& options);

}  // namespace nccltune
