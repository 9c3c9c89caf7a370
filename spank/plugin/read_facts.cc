// SPDX-License-Identifier: Apache-2.0
#include "plugin/address.h"
#include "plugin/gather.h"

namespace nccltune {

Result<Facts> read_facts(const FactsRequest& request, PathWatch* watch) {
  Result<Root> root = request.root.empty() ? Result<Root>(Root()) : Root::open(request.root);
  if (!root) return root.error();
  if (watch != nullptr) root->tell_paths_to(watch);
  ReadOptions options = request.options;
  options.probe_access = root->live();
  Facts facts;
  facts.node = read_node(*root, options);
  facts.node_address = address_of(request.node_name, *root);
  return facts;
}

}  // namespace nccltune
