// SPDX-License-Identifier: Apache-2.0
#include "worker/host_world.h"

#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "worker/common_identity.h"
#include "worker/common_io.h"
#include "worker/host_address.h"
#include "worker/host_store.h"

namespace nccltune::worker {

using protocol::FailureKind;

// Gloo's own limit of one wait; the supervisor's deadlines are shorter and name the phase.
static constexpr std::chrono::hours kPatience{12};

struct Card {  // what a rank tells the others about its host
  uint64_t host = 0;
  std::vector<std::string> addresses;
};

static std::vector<char> card_text() {
  std::ostringstream text;
  text << host_hash();
  for (const LocalAddress& local : local_addresses()) {
    if (!local.loopback) text << ' ' << local.address;
  }
  const std::string whole = text.str();
  return {whole.begin(), whole.end()};
}

static Card read_card(HostStore& store, int rank) {
  const std::vector<char> text = store.get(std::to_string(rank) + "/card");
  std::istringstream words(std::string(text.begin(), text.end()));
  Card card;
  words >> card.host;
  for (std::string address; words >> address;) card.addresses.push_back(address);
  return card;
}

// The first rank after ours that is on another host, and its card; none: all ranks are here.
static std::optional<std::pair<int, Card>> find_other_host(const protocol::Connect& connect, HostStore& store) {
  const uint64_t here = host_hash();
  for (int step = 1; step < connect.ranks; ++step) {
    const int rank = (connect.rank + step) % connect.ranks;
    Card card = read_card(store, rank);
    if (card.host != here) return std::pair(rank, std::move(card));
  }
  return std::nullopt;
}

// NCCL_SOCKET_IFNAME (the plan's or the user's) decides; else, with all ranks on this host, loopback; else the address
// that the kernel uses towards the first rank of another host. Never what the host's name resolves to: Debian maps it
// to 127.0.1.1. A name that is not here is an error, as it is NCCL's, but where all ranks are on one host: there the
// kernel loops any address back, and nodes that show a recorded machine have that machine's names.
static std::string choose_address(const protocol::Connect& connect, HostStore& store) {
  store.set(std::to_string(connect.rank) + "/card", card_text());
  const char* names = std::getenv("NCCL_SOCKET_IFNAME");
  if (names && *names) {
    std::string address = select_address(names, local_addresses());
    if (!address.empty()) return address;
  }
  const auto other = find_other_host(connect, store);
  if (!other) return "127.0.0.1";
  if (names && *names) {
    throw Failed(FailureKind::transport,
                 std::string("NCCL_SOCKET_IFNAME: no interface that runs and has an address matches '") + names + "'",
                 "look at 'nccl-tune topo' for this node's interfaces");
  }
  for (const std::string& peer : other->second.addresses) {
    std::string address = address_towards(peer);
    if (!address.empty()) return address;
  }
  throw Failed(FailureKind::transport, "Gloo: no route to any address of rank " + std::to_string(other->first),
               "set NCCL_SOCKET_IFNAME to the interface that joins the nodes");
}

// Gloo of 2025 shares the store, where older ones borrow it for the call.
template <typename Context>
static void connect_all(Context& context, const std::shared_ptr<HostStore>& store,
                        std::shared_ptr<gloo::transport::Device>& device) {
  if constexpr (requires { context.connectFullMesh(store, device); })
    context.connectFullMesh(store, device);
  else
    context.connectFullMesh(*store, device);
}

static std::shared_ptr<gloo::Context> join(const std::shared_ptr<HostStore>& store,
                                           std::shared_ptr<gloo::transport::Device> device, int rank, int ranks) {
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->setTimeout(kPatience);
  connect_all(*context, store, device);
  return context;
}

HostWorld join_world(const protocol::Connect& connect, const Seat& seat) {
  const auto store = std::make_shared<HostStore>(connect.generation);
  gloo::transport::tcp::attr attributes;
  attributes.hostname = choose_address(connect, *store);
  try {
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    HostWorld world;
    world.all = world.group = join(store, device, connect.rank, connect.ranks);
    if (seat.is_split()) {
      const auto part = std::make_shared<HostStore>(connect.generation, ".group", members_of(seat, seat.group));
      world.group = join(part, device, static_cast<int>(seat.rank), static_cast<int>(seat.ranks));
    }
    return world;
  } catch (const gloo::Exception& error) {
    throw Failed(FailureKind::transport, "Gloo: " + attributes.hostname + ": " + error.what(),
                 "set NCCL_SOCKET_IFNAME to the interface that joins the nodes, and look for a firewall between them");
  }
}

}  // namespace nccltune::worker
