// SPDX-License-Identifier: Apache-2.0
// What `nccl-tune tune` found, as a profile of the policy.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "node/node.h"
#include "policy/plan.h"
#include "policy/policy.h"

namespace nccltune::cli {

// Nodes like this one: the machine's name by DMI, its GPUs and their number, the link layer of the used HCAs.
ProfileCondition condition_of(const Node& node, const Plan& plan);

// "10de:2330" of each GPU.
std::vector<std::string> gpu_ids(const Node& node);
// Of the used HCAs; "" without any, or when they differ.
std::string link_layer_of(const Node& node, const Plan& plan);

// "oci" gives "oci-tuned-20261129"; a tuned one gives its base's name with the new date. Never the name of a profile
// that the policy has.
std::string tuned_name(const std::string& base, const std::string& date, const Policy& policy);

// A policy file with one profile. `comments`: lines above it. The loader reads the same values back.
std::string profile_text(const Profile& profile, const std::vector<std::string>& comments);

}  // namespace nccltune::cli
