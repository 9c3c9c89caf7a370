// SPDX-License-Identifier: Apache-2.0
// The world as a PMIx client (https://pmix.github.io, versions 3 to 5).
#include "bench/world.h"

#if __has_include(<pmix.h>)
#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "bench/pmix_library.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

using namespace pmix;  // NOLINT(google-build-using-namespace)

// What another thread will deliver. Both hold it: whoever stops waiting leaves nothing dangling.
struct Pending {
  std::mutex lock;
  std::condition_variable changed;
  bool done = false;
  pmix_status_t status = PMIX_ERR_TIMEOUT;

  void settle(pmix_status_t result) {
    const std::lock_guard guard(lock);
    status = result;
    done = true;
    changed.notify_all();
  }
  bool settled() {
    const std::lock_guard guard(lock);
    return done;
  }
  // nullopt: the deadline passed first.
  std::optional<pmix_status_t> wait(Deadline deadline) {
    std::unique_lock guard(lock);
    if (!changed.wait_until(guard, deadline, [this] { return done; })) return std::nullopt;
    return status;
  }
};

// A key asked for of another task: held by whoever waits and by the library until it answers, which for a node that is
// gone is Slurm's 300 s and more.
struct Request {
  pmix_proc_t peer;
  std::string key;
  pmix_info_t hints[2];
  std::string text;  // set before `pending` is settled
  bool has_text = false;
  Pending pending;
};

extern "C" void fence_done(pmix_status_t status, void* data) {
  auto* pending = static_cast<std::shared_ptr<Pending>*>(data);
  (*pending)->settle(status);
  delete pending;
}

// The value is the library's own.
extern "C" void get_done(pmix_status_t status, pmix_value_t* value, void* data) {
  auto* held = static_cast<std::shared_ptr<Request>*>(data);
  if (value != nullptr && status == PMIX_SUCCESS) {
    (*held)->text = text_of(*value);
    (*held)->has_text = true;
  }
  (*held)->pending.settle(status);
  delete held;
}

// Runs a call that may block on a thread of its own, which is abandoned at the deadline.
template <class Call>
std::optional<pmix_status_t> bounded(Call call, Deadline deadline) {
  auto pending = std::make_shared<Pending>();
  std::thread([pending, call] { pending->settle(call()); }).detach();
  return pending->wait(deadline);
}

class PmixWorld : public World {
 public:
  PmixWorld(const Library& library, const pmix_proc_t& self) : library_(library), self_(self) {
    place_.rank = static_cast<int>(self.rank);
    place_.size = static_cast<int>(job_number(PMIX_JOB_SIZE).value_or(1));
    place_.local_rank = static_cast<int>(own_number(PMIX_LOCAL_RANK).value_or(0));
    place_.local_size = static_cast<int>(job_number(PMIX_LOCAL_SIZE).value_or(1));
    place_.node = static_cast<int>(own_number(PMIX_NODEID).value_or(0));
    place_.nodes = static_cast<int>(job_number(PMIX_NUM_NODES).value_or(1));
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    place_.hostname = name;
    neighbours_.insert(place_.rank);
    for (const std::string& rank : split(text(everyone(), PMIX_LOCAL_PEERS, integer(PMIX_TIMEOUT, 10)), ','))
      if (const auto peer = parse_integer(rank, 0, INT_MAX)) neighbours_.insert(static_cast<int>(*peer));
  }

  const Place& place() const override { return place_; }
  Seat seat_of(int rank) const override {
    pmix_proc_t peer = self_;
    peer.rank = static_cast<pmix_rank_t>(rank);
    const auto node = number(peer, PMIX_NODEID), local = number(peer, PMIX_LOCAL_RANK);
    if (!node || !local) return World::seat_of(rank);
    return {static_cast<int>(*node), static_cast<int>(*local)};
  }
  std::string host_of(int rank) const override {
    if (rank == place_.rank) return place_.hostname;
    pmix_proc_t peer = self_;
    peer.rank = static_cast<pmix_rank_t>(rank);
    return text(peer, PMIX_HOSTNAME, flag(PMIX_OPTIONAL));  // what is here, without asking the server
  }
  std::string name() const override { return "PMIx " + library_.version(); }

  std::optional<Error> put(const std::string& key, const std::string& value) override {
    pmix_value_t entry;
    std::memset(&entry, 0, sizeof entry);
    entry.type = PMIX_BYTE_OBJECT;
    entry.data.bo.bytes = const_cast<char*>(value.data());  // copied by the call
    entry.data.bo.size = value.size();
    return failed("cannot put '" + key + "'", library_.put(PMIX_GLOBAL, key.c_str(), &entry));
  }

  std::optional<Error> commit() override { return failed("cannot commit", library_.commit()); }

  std::optional<Error> fence(Deadline deadline) override {
    return fence_unless([] { return false; }, deadline);
  }

  std::optional<Error> fence_unless(const std::function<bool()>& over, Deadline deadline) override {
    const auto all = std::make_shared<pmix_proc_t>(everyone());
    // Also where nothing is to be collected: without, Slurm lets a task through before its peers have come, unless
    // SLURM_PMIX_FENCE_BARRIER is set.
    const auto info = std::make_shared<pmix_info_t>(flag(PMIX_COLLECT_DATA));
    auto pending = std::make_shared<Pending>();
    auto* held = new std::shared_ptr<Pending>(pending);
    const pmix_status_t status = library_.fence_nb(all.get(), 1, info.get(), 1, fence_done, held);
    if (status != PMIX_SUCCESS) {
      delete held;
      return status == PMIX_OPERATION_SUCCEEDED ? std::nullopt : failed("cannot start a fence", status);
    }
    kept_.emplace_back(all, info);  // the library may read them until the fence ends, which can be after the deadline
    const auto result = wait(*pending, deadline, over);
    if (!result && passed(deadline)) return Error{name(), "not every task came to the fence in time", "", ""};
    if (!result) return Error{name(), "the fence was broken off", "", ""};
    return failed("the fence failed", *result);
  }

  Result<std::optional<std::string>> get(int rank, const std::string& key, Deadline deadline) override {
    bool again = false;
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, std::chrono::milliseconds(50))) {
      // What a fence collected is at hand without asking the server anew, and not every server can be asked: that of
      // Open MPI 4.1 refuses under PMIx 5.0.1. Who asks without waiting wants to know what is there now (an alarm), and
      // no cache.
      const bool refresh = can_refresh_ && (again || passed(deadline));
      const auto request = ask(rank, key, refresh, deadline);
      if (!request) return std::optional<std::string>();
      const auto status = wait(request->pending, std::max(deadline, in_seconds(kOneTry)), [] { return false; });
      if (!status) return std::optional<std::string>();  // the answer stays on its way
      forget(rank, request);
      if (*status == PMIX_SUCCESS && request->has_text) return std::optional(request->text);
      again = true;
      if (*status == PMIX_ERR_NOT_SUPPORTED && refresh) can_refresh_ = false;
      // A task that has committed answers at once, "not found" too, even when the key is on its way: ask again.
      const bool missing = *status == PMIX_ERR_NOT_FOUND || *status == PMIX_ERR_TIMEOUT || *status == PMIX_SUCCESS ||
                           *status == PMIX_ERR_NOT_SUPPORTED;
      if (!missing) return *failed(print("cannot get '%s' of rank %d", key.c_str(), rank), *status);
      if (passed(deadline)) return std::optional<std::string>();
      std::this_thread::sleep_until(std::min(Clock::now() + pause, deadline));
    }
  }

  void leave(Deadline deadline) override {
    const Library library = library_;
    bounded([library] { return library.finalize(nullptr, 0); }, deadline);
  }

  void abort(int status, const std::string& text) override {
    const Library library = library_;
    // The server ends this task too: the exit status is told first, where it still counts.
    bounded([library, status, text] { return library.abort(status, text.c_str(), nullptr, 0); }, in_seconds(0.5));
    _exit(status);
  }

 private:
  // Attribute names are strings of the standard; older headers lack the macro (PMIx 4).
  static constexpr const char* kRefresh = "pmix.get.refresh";
  // Seconds; a node that is well answers sooner: who gets nothing quickly can tell a dead server from a key that is not
  // there yet.
  static constexpr double kOneTry = 1;

  // Shows now and then that this process still gets around; nullopt: the deadline passed, or `over`.
  std::optional<pmix_status_t> wait(Pending& pending, Deadline deadline, const std::function<bool()>& over) {
    for (;;) {
      slate().beat();
      const auto result = pending.wait(std::min(deadline, in_seconds(0.2)));
      if (result || passed(deadline) || over()) return result;
    }
  }

  // One request for keys of a rank at a time, the alarm's and the session's: a second one makes PMIx 5.0.0 to 5.0.3
  // answer with success and no value, and use the freed request when the first is answered (get_data of
  // pmix_client_get.c; seen as PMIX_ERR_BAD_PARAM, then SIGSEGV). And nodes that are gone must not gather requests.
  // Nothing: one for another key was under way up to the deadline.
  std::shared_ptr<Request> ask(int rank, const std::string& key, bool refresh, Deadline deadline) {
    std::unique_lock guard(lock_);
    for (;;) {
      std::shared_ptr<Request> other = asked_[rank];
      if (!other || (other->key != key && other->pending.settled())) break;
      if (other->key == key) return other;
      guard.unlock();
      if (!other->pending.wait(std::max(deadline, in_seconds(kOneTry)))) return nullptr;
      guard.lock();
    }
    auto request = asked_[rank] = std::make_shared<Request>();
    request->peer = self_;
    request->peer.rank = static_cast<pmix_rank_t>(rank);
    request->key = key;
    request->hints[0] = integer(PMIX_TIMEOUT, std::max(1, static_cast<int>(std::lround(seconds_until(deadline)))));
    // Of a task of its own node a server has no cache to refresh: PMIx 4.2 answers with success and nothing
    // (pmix_server_get.c), which leaves a client that reads no shared memory (PMIX_MCA_gds=hash) without the key for
    // good. It would keep the question until the key comes, and with it the next one.
    const bool near = neighbours_.contains(rank);
    request->hints[1] = flag(near ? PMIX_IMMEDIATE : kRefresh);
    auto* held = new std::shared_ptr<Request>(request);
    const pmix_status_t status =
        library_.get_nb(&request->peer, request->key.c_str(), request->hints, near || refresh ? 2 : 1, get_done, held);
    if (status != PMIX_SUCCESS) {
      delete held;
      request->pending.settle(status);
    }
    return request;
  }
  void forget(int rank, const std::shared_ptr<Request>& request) {
    const std::lock_guard guard(lock_);
    if (asked_[rank] == request) asked_.erase(rank);
  }

  pmix_proc_t everyone() const {
    pmix_proc_t all = self_;
    all.rank = PMIX_RANK_WILDCARD;
    return all;
  }
  std::optional<int64_t> number(const pmix_proc_t& who, const char* key) const {
    pmix_info_t hint = integer(PMIX_TIMEOUT, 10);
    pmix_value_t* value = nullptr;
    if (library_.get(&who, key, &hint, 1, &value) != PMIX_SUCCESS || value == nullptr) return std::nullopt;
    const auto result = number_of(*value);
    release(value);
    return result;
  }
  std::string text(const pmix_proc_t& who, const char* key, pmix_info_t hint) const {
    pmix_value_t* value = nullptr;
    if (library_.get(&who, key, &hint, 1, &value) != PMIX_SUCCESS || value == nullptr) return "";
    std::string text = text_of(*value);
    release(value);
    return text;
  }
  std::optional<int64_t> job_number(const char* key) const { return number(everyone(), key); }
  std::optional<int64_t> own_number(const char* key) const { return number(self_, key); }
  std::optional<Error> failed(const std::string& what, pmix_status_t status) const {
    if (status == PMIX_SUCCESS) return std::nullopt;
    return Error{name(), what, library_.words(status), ""};
  }

  Library library_;
  pmix_proc_t self_;
  std::atomic<bool> can_refresh_ = true;  // the alarm's thread asks too
  std::mutex lock_;
  std::map<int, std::shared_ptr<Request>> asked_;  // by rank
  Place place_;
  std::set<int> neighbours_;  // the ranks of this node, this one too
  std::vector<std::pair<std::shared_ptr<pmix_proc_t>, std::shared_ptr<pmix_info_t>>> kept_;
};

// Slurm and PRRTE say which PMIx their server speaks.
std::string server_version(const std::map<std::string, std::string>& environment) {
  const auto at = environment.find("PMIX_VERSION");
  return at == environment.end() ? "of an unknown version" : at->second;
}

}  // namespace

Result<std::unique_ptr<World>> open_pmix_world(const std::map<std::string, std::string>& environment,
                                               Deadline deadline) {
  auto library = load_library();
  if (!library) return library.error();
  auto self = std::make_shared<pmix_proc_t>();
  const Library calls = *library;
  const auto status = bounded([calls, self] { return calls.init(self.get(), nullptr, 0); }, deadline);
  if (!status || *status != PMIX_SUCCESS)
    return Error{"PMIx",
                 print("client %s cannot reach the server (PMIx %s)", calls.version().c_str(),
                       server_version(environment).c_str()),
                 status ? calls.words(*status) : "no answer in time",
                 "use the libpmix that Slurm's mpi/pmix plugin was built with; in a container also PMIX_MCA_gds=hash"};
  return std::unique_ptr<World>(std::make_unique<PmixWorld>(calls, *self));
}

}  // namespace nccltune::bench

#else
namespace nccltune::bench {
Result<std::unique_ptr<World>> open_pmix_world(const std::map<std::string, std::string>&, Deadline) {
  return Error{"bench", "built without PMIx", "", "build on a machine with pmix.h (libpmix-dev or pmix-devel)"};
}
}  // namespace nccltune::bench
#endif
