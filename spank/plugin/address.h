// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/root.h"

namespace nccltune {

// The address that `node_name` stands for, as text; "" when unknown: the socket interface then follows the default
// route.
//
// From /etc/hosts, and on a live machine by one question to the first name server, one second at the most. No
// getaddrinfo: with a name server gone it holds the launch of every step for 10 s and more, and nss plug-ins (sssd,
// ldap) would be loaded into slurmstepd. No Slurm call: those can deadlock here. SLURM_LAUNCH_NODE_IPADDR is of no use:
// it is where srun runs. Loopback addresses are passed over (Debian writes "127.0.1.1 HOST").
std::string address_of(const std::string& node_name, const Root& root);

// The first A record in a DNS message, as text; "" for none, and for a message that is broken.
std::string address_in_dns_answer(std::string_view message);

}  // namespace nccltune
