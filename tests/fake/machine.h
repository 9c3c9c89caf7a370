// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace fake {

// A folder of a test's own, removed with all that is in it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file and the folders above it; gives its full path.
  std::string write(const std::string& name, const std::string& text) const;
  // A relative symbolic link; both ends inside the folder, absolute there.
  void link(const std::string& name, const std::string& target) const;

 private:
  std::string path_;
};

// Two NUMA nodes of one CPU each, taken from those this process may run on, so that a pin to them is real. Beside each
// node one GPU and one InfiniBand port; eth0 has the default route.
class Machine {
 public:
  Machine();

  const std::string& path() const { return folder_.path(); }
  const Folder& folder() const { return folder_; }
  // The CPU of NUMA node 0 and of node 1; fewer where this process has but one.
  const std::vector<int>& cpus() const { return cpus_; }

 private:
  void add_numa(int id, int cpu) const;
  void add_function(const std::string& parent, const std::string& bdf, const std::string& class_code,
                    const std::string& vendor, const std::string& device, int numa) const;
  void add_gpu(const std::string& bdf, int minor) const;
  void add_hca(const std::string& parent, const std::string& bdf, const std::string& name) const;
  void add_network() const;

  Folder folder_;
  std::vector<int> cpus_;
};

}  // namespace fake
