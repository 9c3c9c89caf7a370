// SPDX-License-Identifier: Apache-2.0
// A finding about a node, and the table of what is looked at.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/root.h"
#include "check/hardware.h"
#include "node/node.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/step.h"

namespace nccltune::check {

enum class Status { ok, warn, fail, skip };

const char* name(Status status);  // "ok", "warn", "fail", "skip"

struct Finding {
  std::string id;      // stable: "rdma.port-state"
  std::string family;  // "rdma"
  Status status = Status::ok;
  std::string object;    // "mlx5_3:1"
  std::string observed;  // for skip: why it was not looked at
  std::string wanted;
  std::string why;      // what it costs, in one line
  std::string remedy;   // a command, or what to ask for; "" for ok and skip
  std::string source;   // who says so
  std::string ignored;  // the site's reason not to count it (ignore_checks of the policy); "" for one that counts

  // Makes the command's exit status 1.
  bool counts_as_failed() const { return status == Status::fail && ignored.empty(); }
};

// What is looked at. The plan tells which HCAs and interface count.
struct Subject {
  const Root& root;
  const Node& node;
  const Plan& plan;
  const Step& step;
  std::optional<CpuSet> mask;          // of this process; absent for a recorded machine
  const Hardware* hardware = nullptr;  // what was asked beside the files; null for a recorded machine

  bool live() const { return root.live(); }
  bool used(const std::string& device, int port) const;  // in NCCL_IB_HCA
};

class Report;

struct Check {
  const char* id;
  const char* family;
  const char* why;
  const char* source;
  void (*run)(const Subject&, Report&);
};

// Collects the findings of one check: its id, family, why and source go with each.
class Report {
 public:
  Report(const Check& check, std::vector<Finding>& findings) : check_(check), findings_(findings) {}

  void ok(std::string object, std::string observed);
  void warn(std::string object, std::string observed, std::string wanted, std::string remedy);
  void fail(std::string object, std::string observed, std::string wanted, std::string remedy);
  void skip(std::string object, std::string reason);
  bool empty() const { return added_ == 0; }

 private:
  void add(Status status, std::string object, std::string observed, std::string wanted, std::string remedy);

  const Check& check_;
  std::vector<Finding>& findings_;
  int added_ = 0;
};

// What a check that had nothing to look at observed.
inline constexpr const char* kNothing = "nothing of the kind here";

// Every check, in the order of the families.
std::vector<Check> all_checks();

// Which checks: by family ("rdma") or by id ("rdma.rate").
struct Selection {
  std::vector<std::string> only;  // empty: all
  std::vector<std::string> skip;

  bool takes(const Check& check) const;
  bool takes_job() const;  // the comparison of the nodes of a step, family "job"
};

// Runs the selected checks. One that finds nothing to look at leaves one skip.
std::vector<Finding> run_checks(const Subject& subject, const Selection& selection);

// Marks the findings that the site chose to live with: warnings and failures stay what they are and count no more.
void mark_ignored(const std::vector<IgnoredCheck>& ignored, std::vector<Finding>& findings);

// One table a family, a file each.
const std::vector<Check>& gpu_checks();
const std::vector<Check>& gpu_health_checks();
const std::vector<Check>& nvlink_checks();
const std::vector<Check>& rdma_checks();
const std::vector<Check>& fabric_checks();
const std::vector<Check>& pcie_checks();
const std::vector<Check>& numa_checks();
const std::vector<Check>& net_checks();
const std::vector<Check>& limits_checks();
const std::vector<Check>& kernel_checks();
const std::vector<Check>& nccl_checks();
const std::vector<Check>& container_checks();
const std::vector<Check>& imex_checks();

}  // namespace nccltune::check
