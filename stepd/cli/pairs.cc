// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "bench/pairs_options.h"
#include "bench/pairs_run.h"
#include "cli/bench_node.h"
#include "cli/run_parsed.h"

namespace nccltune::cli {
namespace {

// What carries a GPU's traffic by the plan of this node: the used HCAs nearest to it, else the interface of NCCL's
// sockets. Read when the first worker has said which GPU it holds.
class PlannedNics {
 public:
  std::string beside(const std::string& bdf) {
    if (!view_) view_ = view_node();
    const auto hcas = view_->hcas_near ? view_->hcas_near(bdf) : std::vector<std::string>();
    return hcas.empty() ? view_->socket_interface : join(hcas, ",");
  }

 private:
  std::optional<nccltune::bench::NodeView> view_;
};

}  // namespace

int pairs(int argc, char** argv) {
  PlannedNics nics;
  return run_parsed(
      nccltune::bench::parse_pairs_options(argc, argv), [&nics](const nccltune::bench::PairsOptions& options) {
        return nccltune::bench::run_pairs(options, [&nics](const std::string& bdf) { return nics.beside(bdf); });
      });
}

}  // namespace nccltune::cli
