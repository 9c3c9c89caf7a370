// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/root.h"
#include "node/read.h"

namespace nccltune {

// The text of a dump that Root::open reads back: every file, link and directory that read_node asks for under root, and
// nothing else. It is meant to be sent to others, so what names a person, a site or a piece of hardware is replaced:
// host name, UUIDs, GUIDs, MAC addresses, asset tags, public IPv4 and IPv6 addresses. The same value is replaced by the
// same one everywhere, and subnets stay subnets, so the plan is the same but for those values. The user's own conf
// files (ReadOptions::home, nccl_conf_file) are left out. An Error when root shows no /sys.
Result<std::string> write_dump(const Root& root, ReadOptions options);

}  // namespace nccltune
