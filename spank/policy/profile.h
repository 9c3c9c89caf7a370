// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "node/node.h"
#include "policy/gid.h"
#include "policy/plan.h"
#include "policy/policy.h"

namespace nccltune {

// The first profile whose every condition holds; nullptr: none. `hcas`: the ports that the rules chose.
const Profile* match_profile(const Node& node, const Policy& policy, const std::vector<ChosenPort>& hcas);

// By name; nullptr: the policy has none of that name.
const Profile* find_profile(const Policy& policy, const std::string& name);

// The profile with the values, and the net_plugin, of those that it extends, where it has none of its own. A profile
// that is not there, or a circle, ends the chain with a note.
Profile with_extended(const Policy& policy, const Profile& profile, std::vector<Note>& notes);

// The variables of a profile as settings, without those whose file is not there.
void plan_profile_env(const Node& node, const Profile& profile, std::vector<EnvSetting>& env, std::vector<Note>& notes);

}  // namespace nccltune
