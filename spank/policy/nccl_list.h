// SPDX-License-Identifier: Apache-2.0
// The list grammar of NCCL_IB_HCA and NCCL_SOCKET_IFNAME, as NCCL reads it: [^][=]name[:port],...
// Source: nccl src/misc/utils.cc (parseStringList, matchIfList), src/transport/net_ib/init.cc.
#pragma once

#include <string>
#include <vector>

namespace nccltune {

struct NcclList {
  struct Entry {
    std::string name;
    std::string port;  // text after the first ':', "" when none
  };
  bool exclude = false;  // '^' first
  bool exact = false;    // '=' next
  std::vector<Entry> entries;

  static NcclList parse(const std::string& text);

  // What NCCL would do with a device and port; an empty list takes all. Interfaces have port -1.
  bool takes(const std::string& name, int port) const;
};

// One entry against a name: whole, or as a prefix.
bool entry_matches(const NcclList::Entry& entry, const std::string& name, bool exact);

}  // namespace nccltune
