// SPDX-License-Identifier: Apache-2.0
// What PMI-2 can carry: values of fewer than 1,024 printable characters under keys of fewer than 64 (PMI2_MAX_VALLEN,
// PMI2_MAX_KEYLEN), and where the tasks are, as its servers write it. All pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nccltune::bench {

// Any bytes as pieces that fit: base64 without padding, since Slurm's server escapes neither ';' nor '='. The first
// piece begins with the number of all, "3.".
std::vector<std::string> to_pieces(std::string_view value);

// How many pieces the first one announces; nullopt: it is none of ours.
std::optional<size_t> pieces_of(std::string_view first);

// The value again; nullopt: they are not the pieces of one value.
std::optional<std::string> from_pieces(const std::vector<std::string>& pieces);

// The name of piece `index` of a key that task `rank` puts: keys can be long, and names of PMI-2 are short.
std::string piece_name(int rank, std::string_view key, size_t index);

// The attribute PMI_process_mapping, "(vector,(0,2,4),...)": blocks of first node, number of nodes, tasks on each,
// taken anew from the start until all tasks are placed. The node of each of `size` tasks; nullopt: cannot be read.
std::optional<std::vector<int>> read_process_mapping(std::string_view text, int size);

}  // namespace nccltune::bench
