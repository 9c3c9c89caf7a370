// SPDX-License-Identifier: Apache-2.0
// Which host a rank is on, as NCCL tells hosts apart.
#pragma once

#include <cstdint>
#include <string>

namespace nccltune::worker {

std::string host_name();

// Equal on ranks that NCCL takes for one host: from NCCL_HOSTID where set, else from host name and boot id (NCCL
// misc/utils.cc, getHostHash). The number itself is ours.
uint64_t host_hash();

}  // namespace nccltune::worker
