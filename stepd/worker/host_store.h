// SPDX-License-Identifier: Apache-2.0
// Gloo's rendezvous store over the supervisor's PMIx.
#pragma once

#include <gloo/rendezvous/store.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nccltune::worker {

// Keys are "RANK" (Gloo's full mesh: one key a rank) or "RANK/name"; the supervisor wants the owner first. A generation
// keeps the keys of one communicator apart from those of the next: PMIx never forgets a key.
class HostStore : public gloo::rendezvous::Store {
 public:
  // `part` keeps communicators of one generation apart. `members`: the rank of the world behind each rank of the keys;
  // empty: they are the same.
  explicit HostStore(uint32_t generation, std::string part = "", std::vector<int> members = {})
      : generation_(generation), part_(std::move(part)), members_(std::move(members)) {}
  void set(const std::string& key, const std::vector<char>& value) override;
  // Waits at the supervisor; throws Failed when it gives up.
  std::vector<char> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

 private:
  std::string full_name(const std::string& key) const;

  uint32_t generation_;
  std::string part_;
  std::vector<int> members_;
  std::map<std::string, std::vector<char>> known_;
};

}  // namespace nccltune::worker
