// SPDX-License-Identifier: Apache-2.0
#include "check/finding.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace nccltune::check {

const char* name(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::warn:
      return "warn";
    case Status::fail:
      return "fail";
    case Status::skip:
      return "skip";
  }
  return "";
}

bool Subject::used(const std::string& device, int port) const {
  return std::any_of(plan.hcas.begin(), plan.hcas.end(),
                     [&](const HcaDecision& hca) { return hca.name == device && hca.port == port && hca.used(); });
}

void Report::add(Status status, std::string object, std::string observed, std::string wanted, std::string remedy) {
  ++added_;
  findings_.push_back({check_.id, check_.family, status, std::move(object), std::move(observed), std::move(wanted),
                       check_.why, std::move(remedy), check_.source, ""});
}

void Report::ok(std::string object, std::string observed) {
  add(Status::ok, std::move(object), std::move(observed), "", "");
}

void Report::warn(std::string object, std::string observed, std::string wanted, std::string remedy) {
  add(Status::warn, std::move(object), std::move(observed), std::move(wanted), std::move(remedy));
}

void Report::fail(std::string object, std::string observed, std::string wanted, std::string remedy) {
  add(Status::fail, std::move(object), std::move(observed), std::move(wanted), std::move(remedy));
}

void Report::skip(std::string object, std::string reason) {
  add(Status::skip, std::move(object), std::move(reason), "", "");
}

std::vector<Check> all_checks() {
  std::vector<Check> all;
  for (const auto* family : {&gpu_checks(), &gpu_health_checks(), &nvlink_checks(), &rdma_checks(), &fabric_checks(),
                             &pcie_checks(), &numa_checks(), &net_checks(), &limits_checks(), &kernel_checks(),
                             &nccl_checks(), &container_checks(), &imex_checks()})
    all.insert(all.end(), family->begin(), family->end());
  return all;
}

bool Selection::takes(const Check& check) const {
  const auto named = [&](const std::vector<std::string>& names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return name == check.family || name == check.id; });
  };
  return (only.empty() || named(only)) && !named(skip);
}

bool Selection::takes_job() const { return takes({"job", "job", "", "", nullptr}); }

std::vector<Finding> run_checks(const Subject& subject, const Selection& selection) {
  std::vector<Finding> findings;
  for (const Check& check : all_checks()) {
    if (!selection.takes(check)) continue;
    Report report(check, findings);
    check.run(subject, report);
    if (report.empty()) report.skip(subject.node.hostname.empty() ? "node" : subject.node.hostname, kNothing);
  }
  return findings;
}

void mark_ignored(const std::vector<IgnoredCheck>& ignored, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (finding.status != Status::warn && finding.status != Status::fail) continue;
    for (const IgnoredCheck& entry : ignored)
      if (glob_match(entry.id, finding.id) && glob_match(entry.object, finding.object)) finding.ignored = entry.reason;
  }
}

}  // namespace nccltune::check
