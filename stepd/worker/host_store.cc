// SPDX-License-Identifier: Apache-2.0
#include "worker/host_store.h"

#include "worker/common_io.h"

namespace nccltune::worker {

using protocol::FailureKind;
using protocol::Kind;

std::string HostStore::full_name(const std::string& key) const {
  const size_t slash = key.find('/');
  std::string owner = key.substr(0, slash);
  const std::string name = slash == std::string::npos ? "mesh" : key.substr(slash + 1);
  if (!members_.empty()) {
    const size_t digits = owner.rfind("rank_", 0) == 0 ? 5 : 0;  // Gloo has a key of either form for a rank
    owner = owner.substr(0, digits) + std::to_string(members_.at(std::stoul(owner.substr(digits))));
  }
  return owner + "/gloo." + std::to_string(generation_) + part_ + "." + name;
}

void HostStore::set(const std::string& key, const std::vector<char>& value) {
  const std::string name = full_name(key);
  send(Kind::store_set, 0, {{name.c_str(), name.size() + 1}, {value.data(), value.size()}});
}

std::vector<char> HostStore::get(const std::string& key) {
  const std::string name = full_name(key);
  const auto known = known_.find(name);
  if (known != known_.end()) return known->second;
  send(Kind::store_get, 0, {{name.data(), name.size()}});
  Message message;
  if (!receive(message))
    throw Failed(FailureKind::internal, "worker: the supervisor closed the pipe during rendezvous");
  if (message.header.kind != Kind::store_reply) {
    throw Failed(FailureKind::internal, "worker: expected the store's answer, got message " +
                                            std::to_string(static_cast<unsigned>(message.header.kind)));
  }
  const auto reply = payload_as<protocol::StoreReply>(message);
  if (!reply.found || message.payload.size() < sizeof reply + reply.length) {
    throw Failed(FailureKind::transport, "Gloo: no word from rank " + key.substr(0, key.find('/')) + " at rendezvous",
                 "look for an error of that rank above");
  }
  const char* value = message.payload.data() + sizeof reply;
  return known_[name] = std::vector<char>(value, value + reply.length);
}

void HostStore::wait(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) get(key);
}

// The supervisor holds the deadline.
void HostStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) { wait(keys); }

}  // namespace nccltune::worker
