// SPDX-License-Identifier: Apache-2.0
// The facts of a node as bytes, for a pipe between two processes of one program: no form to keep, none to store.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "node/node.h"

namespace nccltune {

std::string to_bytes(const Node& node);
// nullopt: not what to_bytes made, to its last byte. Takes no more memory than a few times the bytes' own.
std::optional<Node> from_bytes(std::string_view bytes);

}  // namespace nccltune
