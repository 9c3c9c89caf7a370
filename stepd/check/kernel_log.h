// SPDX-License-Identifier: Apache-2.0
// The kernel's log, for what the NVIDIA driver reports there alone: Xids.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nccltune::check {

struct KernelLog {
  std::string error;               // why it was not read: "needs root"; "" when it was
  std::vector<std::string> lines;  // of the last two hours, oldest first
};

struct Xid {
  std::string bdf;  // "0000:3b:00.0"
  int code = 0;
  bool operator==(const Xid&) const = default;
};

// /dev/kmsg, else the journal where this user may read it.
KernelLog read_kernel_log();

// The message of a /dev/kmsg record ("6,1234,98765432,-;text\n KEY=value") whose time is at or after `since`
// (microseconds after boot); absent for an older one and for what is no record.
std::optional<std::string> message_of(std::string_view record, int64_t since);

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=..., GPU has fallen off the bus." in a line of the log.
std::optional<Xid> xid_in(std::string_view line);

}  // namespace nccltune::check
