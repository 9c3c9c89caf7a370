// SPDX-License-Identifier: Apache-2.0
// What the supervisor and its worker say to each other over a pair of pipes: the worker's standard descriptors are left
// to NCCL and to people. Both ends come from one build, so messages are plain structs behind a checked header; the
// worker includes nothing else of the supervisor.
#pragma once

#include <cstdint>

namespace nccltune::protocol {

inline constexpr uint32_t kVersion = 3;                     // another for each change of what follows
inline constexpr uint32_t kMagic = 0x4e544e00u | kVersion;  // "NTN" and the version
inline constexpr int kCommandFd = 3;                        // worker reads
inline constexpr int kReplyFd = 4;                          // worker writes
inline constexpr uint32_t kMaxPayload = 64u << 20;

enum class Kind : uint32_t {
  // supervisor -> worker
  setup = 1,   // Setup
  make_id,     // rank 0 of a communicator: answer with `id` (nccl: ncclUniqueId; host: nothing to tell, empty)
  connect,     // Connect, then the ids, then with Connect::groups > 1 the group of each rank (int32_t)
  run,         // Case
  disconnect,  // free the communicator, keep the device
  quit,
  store_reply,  // StoreReply, then the value
  // worker -> supervisor
  ready = 100,  // Ready
  id,           // bytes
  connected,    // Connected
  phase,        // Phase: where the worker is, for the deadlines
  result,       // CaseResult, then what it announces
  disconnected,
  store_set,  // key NUL value: the host worker's rendezvous through the supervisor's PMIx
  store_get,  // key: answered by store_reply; the supervisor waits
  failure,    // Failure
};

struct Header {
  uint32_t magic = kMagic;
  Kind kind{};
  uint32_t length = 0;    // bytes of payload that follow
  uint32_t sequence = 0;  // of the command; its answer carries the same, all else (phase, store_*) carries 0
};

enum class Collective : uint32_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  alltoall,
  alltoallv,
  gather,
  scatter,
  sendrecv,
  hypercube
};

// The order of nccl-tests, which prints these names.
enum class DataType : uint32_t {
  int8,
  uint8,
  int32,
  uint32,
  int64,
  uint64,
  half,
  float32,
  double64,
  bfloat16,
  f8e4m3,
  f8e5m2
};

enum class Op : uint32_t { sum, prod, max, min, avg, mulsum, none };

struct Setup {
  int32_t device = 0;         // index into the visible devices
  uint64_t max_bytes = 0;     // largest message; 0: not known yet
  int32_t registration = 0;   // nccl-tests -R: 0, 1 local, 2 symmetric windows
  int32_t check = 1;          // buffers for verification are needed
  uint32_t unalign = 0;       // nccl-tests -u
  int32_t null_stream = 0;    // nccl-tests -y
  int32_t memory = 0;         // nccl-tests -M: tell CaseResult::device_bytes
  int32_t repeat = 0;         // room for a copy of what is received: Case::repeat may be set
  uint32_t fault = 0;         // for tests only: see Fault
  int32_t fault_rank = -1;    // or kAnyRank
  int64_t fault_element = 0;  // for `slow`: percent of the iterations; 0: all
};

inline constexpr int32_t kAnyRank = -2;  // this worker, whatever its rank
// flip_element spoils what is verified; waver the last of the runs that are compared.
enum Fault : uint32_t { none = 0, flip_element = 1, hang = 2, crash = 3, slow = 4, waver = 5 };

// For tests only, as variables, so that settings can differ in them: the host worker waits in each operation for the
// sum of the first two, microseconds, and with the third at 1 its rank 0 flips an element.
inline constexpr const char* kTestSlow = "HOST_WORKER_SLOW_US";
inline constexpr const char* kTestSlowMore = "HOST_WORKER_SLOW_MORE_US";
inline constexpr const char* kTestFlip = "HOST_WORKER_FLIP";

struct Ready {
  char name[96];  // "NVIDIA H200"; host worker: "host memory (Gloo)"
  char bdf[16];   // "0000:3b:00.0"; "" for host
  char uuid[64];  // "GPU-..."; "" for host
  char hostname[256];
  char library[64];                   // "NCCL 2.28.3" / "Gloo"
  int32_t library_code;               // ncclGetVersion; 0 for host
  int32_t header_code;                // NCCL_VERSION_CODE of the build
  int32_t cuda_runtime, cuda_driver;  // 13000; 0 for host
  int32_t device;                     // as opened
  int32_t visible_devices;
  uint64_t free_bytes, total_bytes;
  uint64_t host_hash;  // equal on ranks that NCCL takes for one host (hostname, boot id, NCCL_HOSTID)
  uint32_t types;      // bit per DataType that works here
  int64_t pid;
};

struct Connect {
  int32_t ranks = 1, rank = 0;
  int32_t ids = 1;          // several roots: ncclCommInitRankScalable
  uint32_t id_bytes = 0;    // each
  uint32_t generation = 0;  // names this communicator in the store
  uint64_t max_bytes = 0;   // buffers are (re)made for this
  int32_t blocking = 1;
  int32_t cta_policy = -1;  // nccl-tests -x
  int32_t groups = 1;       // above 1: the ranks are split, each group runs the collective by itself, all at once
};

struct Connected {
  double seconds = 0;         // spent in the library's initialisation
  uint64_t device_bytes = 0;  // memory that it took
  uint64_t buffer_bytes = 0;  // memory that the buffers took
};

// Answer to store_get, followed by `length` bytes of the value. A key names its owner: "RANK/anything", where RANK is
// the rank (Connect::rank) of the worker that sets it; PMIx can only be asked for one rank's keys.
struct StoreReply {
  int32_t found = 0;  // 0: the supervisor gave up waiting for it
  uint32_t length = 0;
};

struct Phase {
  char text[48];  // "device", "communicator", "warm-up", "timing", "verify"
};

struct Case {
  Collective collective{};
  DataType type = DataType::float32;
  Op op = Op::sum;
  int32_t root = 0;        // -1 where the collective has none
  uint64_t bytes = 0;      // the size asked for; the worker trims it as nccl-tests does
  uint64_t max_bytes = 0;  // of the whole run: the walk through the buffer depends on it
  int32_t iterations = 20, warmup = 1, aggregate = 1, cycles = 1;
  int32_t check = 1;          // check iterations
  int32_t blocking = 0;       // -z
  int32_t graph = 0;          // -G
  int32_t average = 1;        // -a: 0 rank 0's, 1 mean, 2 min, 3 max over ranks
  int32_t cpu_time = 0;       // -C
  int32_t warm_only = 0;      // run the warm-up of this size and answer without timings
  int32_t per_iteration = 0;  // record each iteration with device events (a pass of its own, after the timed one)
  int32_t timeout_ms = 0;     // -T, of one wait for the stream
  int32_t repeat = 0;         // runs of one input whose results are compared bit by bit; below 2: none
};

struct Wrong {        // the first wrong element in a placement
  int32_t rank = -1;  // -1: none
  int64_t element = 0;
  char expected[40], found[40];
};

struct WrongTotal {       // over the ranks
  int64_t elements = 0;   // summed
  int32_t bad_ranks = 0;  // ranks with any
  Wrong first;
};

struct Repeats {          // of Case::repeat
  int32_t runs = 0;       // 0: not asked, or input and output overlap
  int32_t differing = 0;  // of them, from the first
  int32_t run = 0;        // the first that differs, 1-based; `wrong` is of it: expected is what the first run gave
  WrongTotal wrong;
};

struct Placement {
  int32_t ran = 0;         // 0: this collective has no such placement
  int32_t checked = 0;     // 0: prints N/A
  double seconds = 0;      // per operation, reduced over ranks as Case::average says
  double own_seconds = 0;  // this rank's own
  WrongTotal wrong;
  Repeats repeats;
  uint32_t samples = 0;    // per-iteration times that follow
  double cpu_seconds = 0;  // with Case::cpu_time: host time to enqueue one operation, reduced like `seconds`
};

// Followed by the samples, out of place then in place, and by groups x GroupTime, likewise. Every rank answers with the
// same reduced numbers (own_seconds and device_bytes apart), so that all supervisors decide alike. Where the ranks are
// split, numbers are over the ranks of all groups, as nccl-tests has them, and ranks are those of the world.
struct CaseResult {
  uint64_t bytes = 0;     // as trimmed for this rank's group: the size column
  uint64_t elements = 0;  // the count column
  Placement out_of_place, in_place;
  uint64_t device_bytes = 0;  // with Setup::memory: taken on this device since the buffers were made
  uint32_t groups = 0;        // GroupTime that follow for each placement; 0: not split
};

// One iteration. The whole of it lasts from the end of the one before to its own end; the operation alone from the
// rank's own start of it, so that waiting for late peers is in it and being late is not: the late rank has the
// shortest. Where ranks are split, max is over all; the others are of the group with the largest difference between
// own_max and own_min, for who comes late is late for its group.
struct Sample {
  double max_seconds = 0;                           // of the whole, over ranks
  double own_max_seconds = 0, own_min_seconds = 0;  // of the operation alone, over ranks
  int32_t max_rank = 0, own_min_rank = 0;
  // The rank that the others waited for: between two operations it spent more than half of own_max - own_min longer
  // than the promptest. -1: none; operations such as broadcast end earlier on some ranks, with nobody late.
  int32_t late_rank = -1;
};

struct GroupTime {
  double seconds = 0;  // per operation, over the group's ranks as Case::average says
  int64_t wrong = 0;   // elements, summed over its ranks
};

enum class FailureKind : uint32_t {
  usage = 1,
  no_device,
  cuda,
  nccl,
  out_of_memory,
  unsupported,
  transport,
  timeout,
  internal
};

struct Failure {
  FailureKind kind{};
  char text[400];  // one line: object, what is wrong, the library's words
  char remedy[200];
};

}  // namespace nccltune::protocol
