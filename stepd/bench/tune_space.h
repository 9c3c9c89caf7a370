// SPDX-License-Identifier: Apache-2.0
// What `nccl-tune tune` may try: variables, the values of each, and where they make sense. Pure; the file that declares
// it is read in cli/tune_files.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/environment.h"
#include "worker/protocol.h"

namespace nccltune::bench {

// Where a variable can matter. A bound of 0 and an empty text ask for nothing.
struct KnobCondition {
  int nodes = 0;                          // at least
  int hcas = 0;                           // used by the plan on a node, at least
  int ranks_per_node = 0;                 // at least
  std::string link_layer;                 // "InfiniBand", "Ethernet": of the used HCAs
  std::string gpu;                        // "10de:23*": PCI vendor:device of a GPU
  int nccl = 0, nccl_below = 0;           // ncclGetVersion's number: from, and below
  std::string file;                       // must be there: /dev/gdrdrv
  uint64_t sizes_from = 0, sizes_to = 0;  // every size of the work lies within; sizes_to 0: no bound
  std::vector<std::string> collectives;   // the work has no other
  bool registration = false;              // the run registers its buffers (-R)
  bool sockets = false;                   // the plan uses no HCA
  std::string worker = "nccl";
};

// One variable.
struct Knob {
  std::string name;
  std::vector<std::string> values;  // to try; none of them is what the step has already
  std::string needs;                // another knob: without a value for that one, this one changes nothing. "": none
  KnobCondition when;
  std::string risk;   // what it costs elsewhere; told with the result
  std::string where;  // "/etc/nccl-tune/tune-space.yaml:14"
};

struct Space {
  std::vector<Knob> knobs;  // the most promising first: when time is short, the last are left out

  // Settings that differ, today's included; as a double, for it can be beyond any integer.
  double grid_size() const;
};

// Of each knob: 0 leaves it as it is today, i sets values[i - 1].
using Setting = std::vector<uint8_t>;

// Sets nothing that needs an unset knob.
bool is_legal(const Space& space, const Setting& setting);
int count_set(const Setting& setting);
Changes changes_of(const Space& space, const Setting& setting);
std::string describe(const Space& space,
                     const Setting& setting);  // "NCCL_PROTO=Simple NCCL_ALGO=Ring"; "today's settings"

// What the conditions are held against: the same on every task, rank 0's word.
struct StepFacts {
  int nodes = 1, ranks = 1, ranks_per_node = 1, hcas = 0;
  std::string link_layer;         // "" without HCAs, or with both kinds
  std::vector<std::string> gpus;  // "10de:2330" of each
  int nccl = 0;                   // 0: not known
  std::string worker;             // "nccl", "host"
  std::string net_plugin;         // the fabric's own plugin, which brings its values; "": none
  bool registration = false;
  std::set<std::string> files;  // that are there, of those that the space asks for
  uint64_t smallest = 0, largest = 0;
  std::vector<std::string> collectives;
  Variables environment;        // NCCL_* in force
  std::set<std::string> users;  // of them, those that are the user's own and not a plan's
};

// Why a knob is not tried here; nullopt: it is.
std::optional<std::string> why_not(const Knob& knob, const StepFacts& facts);

// The knobs that can be tried here, without the values that are in force; the others with their reasons in left_out.
Space applicable(const Space& space, const StepFacts& facts,
                 std::vector<std::pair<std::string, std::string>>& left_out);

// Whether a value may ever be tried: an Error (object: `where`) for a name that is not known, a value out of its
// bounds, or one that trades safety for speed. `bounds`: the file's own, inside ours; empty for none.
std::optional<Error> check_value(const std::string& where, const std::string& name, const std::string& value,
                                 const std::vector<int64_t>& bounds);

// Names that may be tried, with the words for --list: "NCCL_BUFFSIZE  1048576 to 67108864, powers of two".
std::vector<std::pair<std::string, std::string>> known_names();
// Names that are never tried, and why.
std::vector<std::pair<std::string, std::string>> refused_names();

// 2.28.3 as ncclGetVersion has it: "2.28" gives 22800, "2.8.4" 2804 (nccl.h.in: NCCL_VERSION). nullopt: not a version.
std::optional<int> nccl_code(const std::string& text);
std::string nccl_version(int code);  // the other way

}  // namespace nccltune::bench
