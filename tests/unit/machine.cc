// SPDX-License-Identifier: Apache-2.0
#include "machines/machine.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace nccltune::testing {
namespace {

namespace fs = std::filesystem;

fs::path records() { return fs::path(NCCLTUNE_SOURCE_DIR) / "tests/machines"; }

// The run's own folder, removed when the program ends.
class RunFolder {
 public:
  RunFolder() {
    std::string pattern = (fs::temp_directory_path() / "nccl-tune-unit.XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("cannot make a folder like " + pattern);
    path = pattern;
  }
  ~RunFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

const fs::path& run_folder() {
  static const RunFolder folder;
  return folder.path;
}

void execute(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

}  // namespace

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(records()))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string machine_record(const std::string& name) {
  std::ifstream file(records() / (name + ".json"));
  if (!file) throw std::runtime_error("no record " + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string machine_folder(const std::string& name) {
  // Of several runs in a row: they find there what the first one laid out.
  const char* kept = std::getenv("NCCLTUNE_TEST_MACHINES");
  const fs::path folder = (kept != nullptr ? fs::path(kept) : run_folder()) / name;
  if (fs::exists(folder)) return folder.string();
  const fs::path capture = records() / "captures" / (name + ".tar.gz");
  if (fs::exists(capture)) {
    fs::create_directory(folder);
    execute("tar -xzf '" + capture.string() + "' -C '" + folder.string() + "'");
  } else {
    execute("python3 '" + (records() / "mktree.py").string() + "' '" + (records() / (name + ".json")).string() + "' '" +
            folder.string() + "'");
  }
  return folder.string();
}

Root machine(const std::string& name) {
  Result<Root> root = Root::open(machine_folder(name));
  if (!root) throw std::runtime_error(root.error().text());
  return *root;
}

std::string temporary_folder() {
  std::string pattern = (run_folder() / "fresh.XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("cannot make a folder like " + pattern);
  return pattern;
}

}  // namespace nccltune::testing
