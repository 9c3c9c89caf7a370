// SPDX-License-Identifier: Apache-2.0
// The trials of a search on disk, so that one that was killed goes on where it was.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bench/tune_search.h"

namespace nccltune::bench {

// What must be the same for a search to go on: "space", "machine", "options" and the like, in words.
using Identity = std::vector<std::pair<std::string, std::string>>;

struct Journal {
  std::vector<std::pair<Setting, Answer>> trials;  // in order
};

std::string journal_text(const Identity& identity, const Journal& journal);
// An error names what differs. Nothing in the text is believed unchecked.
Result<Journal> parse_journal(const std::string& text, const std::string& file, const Identity& identity);

// nullopt: there is no such file. It must be a regular file of this user.
Result<std::optional<Journal>> read_journal(const std::string& file, const Identity& identity);
// Whole or not at all: a new file takes the old one's place.
std::optional<Error> write_journal(const std::string& file, const Identity& identity, const Journal& journal);

// Tells the search what the journal holds. An error: it asked another question than the journal answers.
std::optional<Error> replay(const Journal& journal, const std::string& file, Search& search);

}  // namespace nccltune::bench
