// SPDX-License-Identifier: Apache-2.0
// The world as a client of PMI-2, for sites whose Slurm has no PMIx: `srun --mpi=pmi2`. libpmi2 is loaded when needed.
//
// PMI-2 has a store whose keys others see after the next fence, and nothing that tells of a key before. Whether a fence
// follows a put is not known here (an alarm, the answer to a question: none does), so each key goes to PMI-2's name
// service too, which answers at any time: srun keeps it for the whole step, at a message a key.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "bench/pmi2_text.h"
#include "bench/text.h"
#include "bench/world.h"

namespace nccltune::bench {
namespace {

constexpr const char* kLibrary = "libpmi2.so.0";
constexpr int kMaxValue = 1024;      // PMI2_MAX_VALLEN, PMI2_MAX_ATTRVALUE
constexpr int kAnyTask = -1;         // PMI2_ID_NULL
constexpr double kCallSeconds = 30;  // a call that waits for no other task

// As in pmi2.h of Slurm and MPICH; each returns 0 or a code above.
struct Library {
  int (*init)(int* spawned, int* size, int* rank, int* application);
  int (*finalize)();
  int (*abort)(int flag, const char* message);
  int (*job_id)(char* id, int length);
  int (*put)(const char* key, const char* value);
  int (*fence)();
  int (*get)(const char* job, int source, const char* key, char* value, int length, int* found_length);
  int (*job_attribute)(const char* name, char* value, int length, int* found);
  int (*publish)(const char* name, const void* info, const char* value);
  int (*look_up)(const char* name, const void* info, char* value, int length);
};

Result<Library> load_library() {
  void* handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return Error{kLibrary, "cannot load, though this step offers PMI-2", dlerror(),
                 "install libpmi2-0 (slurm-libpmi), or start the step with --mpi=pmix"};
  Library library{};
  const auto find = [handle](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    return function != nullptr;
  };
  if (!find("PMI2_Init", library.init) || !find("PMI2_Finalize", library.finalize) ||
      !find("PMI2_Abort", library.abort) || !find("PMI2_Job_GetId", library.job_id) ||
      !find("PMI2_KVS_Put", library.put) || !find("PMI2_KVS_Fence", library.fence) ||
      !find("PMI2_KVS_Get", library.get) || !find("PMI2_Info_GetJobAttr", library.job_attribute) ||
      !find("PMI2_Nameserv_publish", library.publish) || !find("PMI2_Nameserv_lookup", library.look_up))
    return Error{kLibrary, "lacks a call of PMI-2", dlerror(), ""};
  return library;
}

// One thread makes all calls, in order: the library holds one conversation and waits in it for the server's answer,
// without an end when the server has none. Who asks stops waiting at his deadline, and leaves the thread to it.
class Caller {
 public:
  Caller() : shared_(std::make_shared<Shared>()) {
    std::thread([shared = shared_] { work(*shared); }).detach();
  }
  ~Caller() {
    const std::lock_guard guard(shared_->lock);
    shared_->stop = true;
    shared_->changed.notify_all();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // What `call` returned; nullopt: the deadline passed first. What it captures must own its memory.
  std::optional<int> run(std::function<int()> call, Deadline deadline) {
    const auto job = std::make_shared<Job>();
    job->call = std::move(call);
    std::unique_lock guard(shared_->lock);
    shared_->jobs.push_back(job);
    shared_->changed.notify_all();
    shared_->changed.wait_until(guard, deadline, [&] { return job->status.has_value(); });
    return job->status;
  }

 private:
  struct Job {
    std::function<int()> call;
    std::optional<int> status;
  };
  struct Shared {
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::shared_ptr<Job>> jobs;
    bool stop = false;
  };
  static void work(Shared& shared) {
    std::unique_lock guard(shared.lock);
    for (;;) {
      shared.changed.wait(guard, [&] { return shared.stop || !shared.jobs.empty(); });
      if (shared.jobs.empty()) return;
      const auto job = shared.jobs.front();
      shared.jobs.pop_front();
      guard.unlock();
      const int status = job->call();
      guard.lock();
      job->status = status;
      shared.changed.notify_all();
    }
  }
  std::shared_ptr<Shared> shared_;
};

class Pmi2World : public World {
 public:
  // `nodes`: of each task; empty: not known.
  Pmi2World(const Library& library, std::unique_ptr<Caller> caller, Place place, std::string job,
            std::vector<int> nodes)
      : library_(library),
        caller_(std::move(caller)),
        place_(std::move(place)),
        job_(std::move(job)),
        nodes_(std::move(nodes)) {}

  const Place& place() const override { return place_; }
  Seat seat_of(int rank) const override {
    if (rank < 0 || static_cast<size_t>(rank) >= nodes_.size()) return World::seat_of(rank);
    const int node = nodes_[rank];
    return {node, static_cast<int>(std::count(nodes_.begin(), nodes_.begin() + rank, node))};
  }
  // Slurm's job id is "JOB.STEP"; Hydra's of MPICH begins with "kvs_".
  std::string name() const override {
    return job_.find_first_not_of("0123456789.") == std::string::npos ? "PMI-2 of Slurm" : "PMI-2";
  }
  bool asks_one_server() const override { return true; }

  std::optional<Error> put(const std::string& key, const std::string& value) override {
    const auto pieces = to_pieces(value);
    {
      const std::lock_guard guard(lock_);
      own_[key] = value;
    }
    // The first piece is the last to be put: who finds it finds all.
    for (size_t i = pieces.size(); i-- > 0;) {
      const std::string name = piece_name(place_.rank, key, i);
      const auto store = [call = library_.put, name, piece = pieces[i]] { return call(name.c_str(), piece.c_str()); };
      if (auto error = done("cannot put '" + key + "'", store, in_seconds(kCallSeconds))) return error;
      const auto publish = [call = library_.publish, name, piece = pieces[i]] {
        return call(name.c_str(), nullptr, piece.c_str());
      };
      if (auto error = done("cannot publish '" + key + "'", publish, in_seconds(kCallSeconds))) return error;
    }
    return std::nullopt;
  }

  std::optional<Error> commit() override { return std::nullopt; }  // each put is under way at once

  // PMI-2 always hands out what was put.
  std::optional<Error> fence(Deadline deadline) override {
    const auto status = caller_->run(library_.fence, deadline);
    if (!status) return Error{name(), "not every task came to the fence in time", "", ""};
    if (*status) return Error{name(), "the fence failed", print("error %d", *status), ""};
    return std::nullopt;
  }

  Result<std::optional<std::string>> get(int rank, const std::string& key, Deadline deadline) override {
    if (rank == place_.rank) {
      const std::lock_guard guard(lock_);
      const auto at = own_.find(key);
      return at == own_.end() ? std::nullopt : std::optional(at->second);
    }
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, std::chrono::milliseconds(50))) {
      // Who asks without waiting wants to know what is there now, which takes a moment to find out.
      const Deadline end = std::max(deadline, in_seconds(1));
      auto value = find_value(rank, key, end);
      if (value) return std::optional(std::move(*value));
      if (passed(deadline)) return std::optional<std::string>();
      std::this_thread::sleep_until(std::min(Clock::now() + pause, deadline));
    }
  }

  void leave(Deadline deadline) override { caller_->run(library_.finalize, deadline); }

  void abort(int status, const std::string& text) override {
    caller_->run([call = library_.abort, status, text] { return call(status ? status : 1, text.c_str()); },
                 in_seconds(5));
    _exit(status);
  }

 private:
  std::optional<Error> done(const std::string& what, std::function<int()> call, Deadline deadline) {
    const auto status = caller_->run(std::move(call), deadline);
    if (status == 0) return std::nullopt;
    return Error{name(), what, status ? print("error %d", *status) : "no answer in time", ""};
  }

  // The store of the node first, which costs no message to another; then the name service.
  std::optional<std::string> find_piece(const std::string& name, Deadline deadline) {
    const auto value = std::make_shared<std::vector<char>>(kMaxValue + 1);
    const auto stored = caller_->run(
        [call = library_.get, job = job_, name, value] {
          int length = 0;
          return call(job.c_str(), kAnyTask, name.c_str(), value->data(), kMaxValue, &length);
        },
        deadline);
    if (stored == 0) return std::string(value->data());
    const auto published = caller_->run(
        [call = library_.look_up, name, value] { return call(name.c_str(), nullptr, value->data(), kMaxValue); },
        deadline);
    if (published == 0) return std::string(value->data());
    return std::nullopt;
  }

  std::optional<std::string> find_value(int rank, const std::string& key, Deadline deadline) {
    std::vector<std::string> pieces;
    size_t count = 1;
    while (pieces.size() < count) {
      auto piece = find_piece(piece_name(rank, key, pieces.size()), deadline);
      if (!piece) return std::nullopt;
      if (pieces.empty()) count = pieces_of(*piece).value_or(0);
      pieces.push_back(std::move(*piece));
    }
    return from_pieces(pieces);
  }

  Library library_;
  std::unique_ptr<Caller> caller_;
  Place place_;
  std::string job_;
  std::vector<int> nodes_;
  std::mutex lock_;  // the alarm's thread puts and gets too
  std::map<std::string, std::string> own_;
};

int number_in(const std::map<std::string, std::string>& environment, const char* name, int otherwise) {
  const auto at = environment.find(name);
  if (at == environment.end()) return otherwise;
  return static_cast<int>(parse_integer(at->second, 0, 1 << 30).value_or(otherwise));
}

// Where this task is, from the launcher's map of tasks to nodes; a long map may not fit its attribute, and Slurm's own
// variables say it then.
void find_node(Place& place, const std::optional<std::vector<int>>& node_of,
               const std::map<std::string, std::string>& environment) {
  if (node_of) {
    place.node = (*node_of)[place.rank];
    place.nodes = static_cast<int>(std::set<int>(node_of->begin(), node_of->end()).size());
    place.local_size = static_cast<int>(std::count(node_of->begin(), node_of->end(), place.node));
    place.local_rank = static_cast<int>(std::count(node_of->begin(), node_of->begin() + place.rank, place.node));
    return;
  }
  place.node = number_in(environment, "SLURM_NODEID", 0);
  place.nodes = std::max(1, number_in(environment, "SLURM_STEP_NUM_NODES", 1));
  place.local_rank = number_in(environment, "SLURM_LOCALID", 0);
  place.local_size = std::max(place.local_rank + 1, place.size / place.nodes);
}

}  // namespace

bool offers_pmi2(const std::map<std::string, std::string>& environment) {
  if (!environment.contains("PMI_FD") || !environment.contains("PMI_RANK")) return false;
  // The variable outlives its descriptor in an inner step of another kind.
  struct stat status;
  const int fd = number_in(environment, "PMI_FD", -1);
  return fd >= 0 && fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

Result<std::unique_ptr<World>> open_pmi2_world(const std::map<std::string, std::string>& environment,
                                               Deadline deadline) {
  auto library = load_library();
  if (!library) return library.error();
  fcntl(number_in(environment, "PMI_FD", -1), F_SETFD, FD_CLOEXEC);  // no business of the workers
  struct Answer {
    int spawned = 0, size = 1, rank = 0, application = 0, found = 0;
    char job[kMaxValue + 1] = "", mapping[kMaxValue + 1] = "";
  };
  auto caller = std::make_unique<Caller>();
  const auto answer = std::make_shared<Answer>();
  const auto status = caller->run(
      [calls = *library, answer] {
        Answer& a = *answer;
        if (const int error = calls.init(&a.spawned, &a.size, &a.rank, &a.application)) return error;
        if (const int error = calls.job_id(a.job, kMaxValue)) return error;
        if (calls.job_attribute("PMI_process_mapping", a.mapping, kMaxValue, &a.found)) a.found = 0;
        return 0;
      },
      deadline);
  if (status != 0)
    return Error{"PMI-2", "client cannot reach the server", status ? print("error %d", *status) : "no answer in time",
                 "use the libpmi2 of this Slurm release, or start the step with --mpi=pmix"};
  Place place;
  place.rank = answer->rank;
  place.size = answer->size;
  auto nodes = answer->found ? read_process_mapping(answer->mapping, place.size) : std::nullopt;
  find_node(place, nodes, environment);
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  place.hostname = name;
  return std::unique_ptr<World>(std::make_unique<Pmi2World>(*library, std::move(caller), std::move(place), answer->job,
                                                            nodes ? std::move(*nodes) : std::vector<int>()));
}

}  // namespace nccltune::bench
