// SPDX-License-Identifier: Apache-2.0
// Runs the built nccl-tune, which lies beside the unit tests, as a user's shell would.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace nccltune::test {

struct Ran {
  int status = -1;  // exit status; 128 + N for signal N
  std::string out, err;
};

// Standard output goes here in place of the pipe: a device such as /dev/full, or "" for a closed descriptor.
struct Output {
  bool replaced = false;
  std::string path;
};

// The environment is PATH, HOME=/nonexistent and `env`, nothing else.
Ran run_tool(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& env = {},
             const Output& output = {});

// NCCLTUNE_TOOL (where a built program needs another to run, such as qemu), else the one beside the tests; "" when the
// tool was not built.
std::string tool_path();

// A folder of a test's own, removed with all that is in it; a recorded machine is laid out in one.
class Tree {
 public:
  Tree();
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const;
  void link(const std::string& name, const std::string& target) const;  // both inside the tree; made relative

 private:
  std::string path_;
};

// Two NUMA nodes, a GPU on each; the CPUs of the nodes are `cpus` (one list each).
void lay_out_two_gpus(const Tree& tree, const std::vector<std::string>& cpus);

}  // namespace nccltune::test
