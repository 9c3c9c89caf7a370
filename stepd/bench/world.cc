// SPDX-License-Identifier: Apache-2.0
#include "bench/world.h"

#include <unistd.h>

#include <algorithm>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

class SingleWorld : public World {
 public:
  SingleWorld() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    place_.hostname = name;
  }
  const Place& place() const override { return place_; }
  std::string name() const override { return "one process"; }
  std::optional<Error> put(const std::string& key, const std::string& value) override {
    keys_[key] = value;
    return std::nullopt;
  }
  std::optional<Error> commit() override { return std::nullopt; }
  std::optional<Error> fence(Deadline) override { return std::nullopt; }
  // Nobody else can put the key while we wait.
  Result<std::optional<std::string>> get(int, const std::string& key, Deadline) override {
    const auto at = keys_.find(key);
    return at == keys_.end() ? std::nullopt : std::optional(at->second);
  }
  void leave(Deadline) override {}
  void abort(int status, const std::string&) override { _exit(status); }

 private:
  Place place_;
  std::map<std::string, std::string> keys_;
};

std::string value_of(const std::map<std::string, std::string>& environment, const char* name) {
  const auto at = environment.find(name);
  return at == environment.end() ? "" : at->second;
}

bool offers_pmix(const std::map<std::string, std::string>& environment) {
  return !value_of(environment, "PMIX_RANK").empty() && !value_of(environment, "PMIX_NAMESPACE").empty();
}

}  // namespace

Seat World::seat_of(int rank) const {
  const int each = std::max(1, place().size / std::max(1, place().nodes));
  return {rank / each, rank % each};
}

bool offers_world(const std::map<std::string, std::string>& environment) {
  return offers_pmix(environment) || offers_pmi2(environment);
}

std::optional<Error> lonely_task(const std::map<std::string, std::string>& environment) {
  static constexpr const char* kSlurmRemedy =
      "start it with 'srun --mpi=pmix nccl-tune ...', or --mpi=pmi2 ('srun --mpi=list' tells what there is)";
  // SLURM_STEP_NUM_TASKS is the step's own; SLURM_NTASKS can be the whole job's.
  static constexpr struct {
    const char* name;
    const char* remedy;
  } kCounts[] = {
      {"SLURM_STEP_NUM_TASKS", kSlurmRemedy},
      {"SLURM_NTASKS", kSlurmRemedy},
      {"OMPI_COMM_WORLD_SIZE", "use an mpirun whose Open MPI was built with PMIx, or srun --mpi=pmix"},
      {"PMI_SIZE", "use srun --mpi=pmix, or --mpi=pmi2, or a launcher that sets PMI_FD"},
  };
  for (const auto& [name, remedy] : kCounts) {
    const std::string text = value_of(environment, name);
    if (text.empty()) continue;
    const auto count = parse_integer(text, 0, 1 << 30);
    if (count && *count > 1)
      return Error{"step",
                   print("%s=%s tasks were started, but this one cannot see the others: it has neither PMIx nor PMI-2",
                         name, text.c_str()),
                   "", remedy};
    if (count) return std::nullopt;  // the first that is set knows best
  }
  return std::nullopt;
}

std::unique_ptr<World> open_single_world() { return std::make_unique<SingleWorld>(); }

Result<std::unique_ptr<World>> open_world(const std::map<std::string, std::string>& environment, Deadline deadline) {
  const bool pmix = offers_pmix(environment);
  if (pmix || offers_pmi2(environment)) {
    auto world = pmix ? open_pmix_world(environment, deadline) : open_pmi2_world(environment, deadline);
    if (!world) return world;
    if ((*world)->place().size == 1)
      if (auto fault = lonely_task(environment)) return *fault;
    return world;
  }
  if (auto fault = lonely_task(environment)) return *fault;
  return open_single_world();
}

}  // namespace nccltune::bench
