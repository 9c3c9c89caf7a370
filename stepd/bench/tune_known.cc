// SPDX-License-Identifier: Apache-2.0
// Which variables may be tried with which values, and which never. Bounds and defaults: NCCL's user guide (env.rst) and
// the sources of 2.30.7.
#include <algorithm>
#include <cstdint>

#include "base/text.h"
#include "bench/tune_space.h"

namespace nccltune::bench {
namespace {

struct Known {
  const char* name;
  int64_t low, high;  // of a number; both 0: one of `words`
  bool power_of_two;
  std::vector<const char*> words;
};

const std::vector<Known>& known() {
  constexpr int64_t K = 1024, M = K * K;
  static const std::vector<Known> kKnown = {
      // 1 to 128 in env.rst. Beyond 16 a node of 8 GPUs holds thousands of queue pairs a peer.
      {"NCCL_IB_QPS_PER_CONNECTION", 1, 16, false, {}},
      {"NCCL_IB_SPLIT_DATA_ON_QPS", 0, 1, false, {}},
      {"NCCL_IB_ADAPTIVE_ROUTING", 0, 1, false, {}},
      {"NCCL_IB_AR_THRESHOLD", 0, 16 * M, false, {}},
      {"NCCL_CROSS_NIC", 0, 2, false, {}},
      {"NCCL_PXN_DISABLE", 0, 1, false, {}},
      {"NCCL_P2P_PXN_LEVEL", 0, 2, false, {}},
      // 64 from 2.25 on, 32 before (env.rst).
      {"NCCL_MIN_CTAS", 1, 64, false, {}},
      {"NCCL_MAX_CTAS", 1, 64, false, {}},
      {"NCCL_MIN_NCHANNELS", 1, 32, false, {}},
      {"NCCL_MAX_NCHANNELS", 1, 32, false, {}},
      {"NCCL_NCHANNELS_PER_NET_PEER", 1, 32, true, {}},
      // A channel has a buffer of this size for each peer: 64 MiB on 32 channels is 2 GiB of device memory a peer.
      {"NCCL_BUFFSIZE", M, 64 * M, true, {}},
      // At most NCCL_BUFFSIZE / 8 counts (init.cc: computeBuffSizes).
      {"NCCL_P2P_NET_CHUNKSIZE", 64 * K, 8 * M, true, {}},
      {"NCCL_P2P_NVL_CHUNKSIZE", 64 * K, 8 * M, true, {}},
      {"NCCL_P2P_PCI_CHUNKSIZE", 64 * K, 8 * M, true, {}},
      {"NCCL_NVLS_CHUNKSIZE", 64 * K, 2 * M, true, {}},
      {"NCCL_NVLSTREE_MAX_CHUNKSIZE", 64 * K, 2 * M, true, {}},
      {"NCCL_NVLS_NCHANNELS", 1, 32, false, {}},
      {"NCCL_NVLS_ENABLE", 0, 2, false, {}},
      {"NCCL_NTHREADS", 64, 512, true, {}},
      {"NCCL_CGA_CLUSTER_SIZE", 0, 8, false, {}},
      {"NCCL_GDRCOPY_ENABLE", 0, 1, false, {}},
      {"NCCL_NET_GDR_READ", 0, 1, false, {}},
      {"NCCL_LOCAL_REGISTER", 0, 1, false, {}},
      {"NCCL_SOCKET_NTHREADS", 1, 16, false, {}},
      {"NCCL_NSOCKS_PERTHREAD", 1, 16, false, {}},
      // With the function's name before them, as NCCL takes them since 2.24: a bare list holds for every function, and
      // one without an algorithm that it has fails (env.rst).
      {"NCCL_ALGO",
       0,
       0,
       false,
       {"Ring", "Tree", "NVLS", "NVLSTree", "PAT", "CollnetDirect", "CollnetChain", "^NVLS", "^Tree"}},
      // LL128 is not here: on platforms that do not support it, it corrupts data (env.rst). Nor is ^LL or ^Simple: to
      // exclude one is to ask for all others, LL128 too (graph/tuning.cc: parseList, and its check for 2, "not asked").
      {"NCCL_PROTO", 0, 0, false, {"Simple", "LL", "LL,Simple", "^LL128"}},
      // For tests of the search itself, with the host worker (protocol.h).
      {protocol::kTestSlow, 0, 100000, false, {}},
      {protocol::kTestSlowMore, 0, 100000, false, {}},
      {protocol::kTestFlip, 0, 1, false, {}},
  };
  return kKnown;
}

struct Refused {
  const char *name, *why;
};

constexpr Refused kRefused[] = {
    {"NCCL_IB_HCA", "the plan chooses it on each node by what the node has"},
    {"NCCL_SOCKET_IFNAME", "the plan chooses it on each node by what the node has"},
    {"NCCL_IB_GID_INDEX", "the plan chooses it on each node by what the node has"},
    {"NCCL_IB_TC", "the traffic class is the fabric's: another one takes lossless bandwidth from other jobs"},
    {"NCCL_IB_SL", "the service level is the fabric's: another one takes lossless bandwidth from other jobs"},
    {"NCCL_IB_FIFO_TC", "the traffic class is the fabric's: another one takes lossless bandwidth from other jobs"},
    {"NCCL_IB_TIMEOUT", "it is for links that flap, and a short test sees none"},
    {"NCCL_IB_RETRY_CNT", "it is for links that flap, and a short test sees none"},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "order on PCIe is a matter of right data; the platform's profile sets it"},
    {"NCCL_NET_FORCE_FLUSH", "without the flush the GPU can read old data, and a test does not always see it"},
    {"NCCL_GDR_FLUSH_DISABLE", "without the flush the GPU can read old data, and a test does not always see it"},
    {"NCCL_NET_GDR_LEVEL", "GPUDirect RDMA over a path that the platform does not vouch for can corrupt data"},
    {"NCCL_P2P_LEVEL", "peer access over a path that the platform does not vouch for can corrupt data"},
    {"NCCL_DMABUF_ENABLE", "which way the driver registers memory is for the administrator, not for a test"},
    {"NCCL_CHECK_POINTERS", "it turns checks of NCCL's arguments on and off"},
    {"NCCL_CHECKS_DISABLE", "it turns checks of NCCL's arguments off"},
    {"NCCL_IGNORE_NET_MISMATCH", "it turns a check of the nodes against each other off"},
    {"NCCL_PSK", "it is a secret, and turns encryption on and off"},
    {"NCCL_SOCKET_MAGIC", "it keeps the traffic of jobs apart"},
    {"NCCL_COMM_ID", "it names the meeting point of a job"},
    {"NCCL_HOSTID", "it names the host"},
    {"NCCL_CONF_FILE", "it names a file"},
    {"NCCL_TOPO_FILE", "it names a file; the platform's profile sets it"},
    {"NCCL_GRAPH_FILE", "it names a file; the platform's profile sets it"},
    {"NCCL_NET_PLUGIN", "it loads code"},
    {"NCCL_TUNER_PLUGIN", "it loads code"},
    {"NCCL_ENV_PLUGIN", "it loads code"},
    {"NCCL_PROFILER_PLUGIN", "it loads code"},
    {"LD_LIBRARY_PATH", "it loads code"},
    {"LD_PRELOAD", "it loads code"},
};

std::string bounds_in_words(const Known& known) {
  if (!known.words.empty()) {
    std::vector<std::string> words(known.words.begin(), known.words.end());
    return join(words, ", ");
  }
  return std::to_string(known.low) + " to " + std::to_string(known.high) +
         (known.power_of_two ? ", powers of two" : "");
}

// "allreduce:Tree".
std::optional<Error> check_word(const std::string& where, const Known& known, const std::string& value) {
  static const std::vector<std::string> kFunctions = {"allreduce", "allgather", "reducescatter", "broadcast", "reduce"};
  const std::string name = known.name;
  const size_t colon = value.find(':');
  const std::string function = lower(value.substr(0, colon == std::string::npos ? 0 : colon));
  if (std::find(kFunctions.begin(), kFunctions.end(), function) == kFunctions.end())
    return Error{where,
                 name + ": '" + value + "' names no function, so it would hold for all, and fail those that lack it",
                 "", "write it as in allreduce:" + std::string(known.words.front())};
  const std::string word = value.substr(colon + 1);
  if (std::find(known.words.begin(), known.words.end(), word) != known.words.end()) return std::nullopt;
  if (name == "NCCL_PROTO" && (lower(word).find("ll128") != std::string::npos || word[0] == '^'))
    return Error{
        where,
        name + ": '" + value + "' is never tried: it asks for LL128, which corrupts data on platforms without it", "",
        ""};
  return Error{where, name + ": '" + word + "' is not one of " + bounds_in_words(known), "", ""};
}

}  // namespace

std::optional<Error> check_value(const std::string& where, const std::string& name, const std::string& value,
                                 const std::vector<int64_t>& bounds) {
  for (const Refused& refused : kRefused)
    if (name == refused.name) return Error{where, name + " is never tried: " + refused.why, "", ""};
  const auto at = std::find_if(known().begin(), known().end(), [&](const Known& k) { return name == k.name; });
  if (at == known().end()) {
    std::vector<std::string> names;
    for (const Known& k : known()) names.emplace_back(k.name);
    const std::string near = nearest_word(name, names);
    return Error{where, name + " is not a variable that can be tried", "",
                 near.empty() ? "see nccl-tune tune --list" : "did you mean '" + near + "'?"};
  }
  if (!at->words.empty()) return check_word(where, *at, value);
  const int64_t low = bounds.size() == 2 ? std::max(at->low, bounds[0]) : at->low;
  const int64_t high = bounds.size() == 2 ? std::min(at->high, bounds[1]) : at->high;
  const auto number = parse_int(value, low, high);
  if (!number || (at->power_of_two && (*number & (*number - 1)) != 0))
    return Error{where, name + ": '" + value + "' is out of bounds",
                 std::to_string(low) + " to " + std::to_string(high) + (at->power_of_two ? ", powers of two" : ""), ""};
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> known_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const Known& k : known())
    if (std::string(k.name).rfind("HOST_WORKER_", 0) != 0) names.emplace_back(k.name, bounds_in_words(k));
  return names;
}

std::vector<std::pair<std::string, std::string>> refused_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const Refused& r : kRefused) names.emplace_back(r.name, r.why);
  names.emplace_back("NCCL_PROTO=LL128", "LL128 corrupts data on platforms without it; ^LL and ^Simple ask for it too");
  return names;
}

}  // namespace nccltune::bench
