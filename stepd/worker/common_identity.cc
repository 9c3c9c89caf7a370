// SPDX-License-Identifier: Apache-2.0
#include "worker/common_identity.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>

namespace nccltune::worker {

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

uint64_t host_hash() {
  std::string identity;
  const char* forced = std::getenv("NCCL_HOSTID");
  if (forced && *forced) {
    identity = forced;
  } else {
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;  // absent on a kernel without it: the name alone
    identity = host_name() + boot;
  }
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (unsigned char c : identity) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

}  // namespace nccltune::worker
