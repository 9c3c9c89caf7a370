// SPDX-License-Identifier: Apache-2.0
#include "unit/cli_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <tuple>

namespace nccltune::test {

namespace fs = std::filesystem;

namespace {

// Both pipes to their ends, whichever fills first.
void drain(int out, int err, Ran& ran) {
  pollfd ends[] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* texts[] = {&ran.out, &ran.err};
  for (int open = 2; open > 0;) {
    poll(ends, 2, -1);
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || !ends[i].revents) continue;
      char buffer[65536];
      const ssize_t n = read(ends[i].fd, buffer, sizeof buffer);
      if (n > 0) {
        texts[i]->append(buffer, static_cast<size_t>(n));
      } else {
        close(ends[i].fd);
        ends[i].fd = -1;
        --open;
      }
    }
  }
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

std::string tool_path() {
  if (const char* named = std::getenv("NCCLTUNE_TOOL")) return named;
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0) return "";
  const fs::path tool = fs::path(std::string(path, static_cast<size_t>(n))).parent_path() / "nccl-tune";
  return access(tool.c_str(), X_OK) == 0 ? tool.string() : "";
}

Ran run_tool(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& env,
             const Output& output) {
  std::vector<std::string> words{tool_path()}, variables{"PATH=/usr/bin:/bin", "HOME=/nonexistent"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (const auto& [name, value] : env) variables.push_back(name + "=" + value);
  const auto argv = pointers(words), envp = pointers(variables);
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  const pid_t child = fork();
  if (child == 0) {
    dup2(err[1], STDERR_FILENO);
    if (!output.replaced)
      dup2(out[1], STDOUT_FILENO);
    else if (output.path.empty())
      close(STDOUT_FILENO);
    else
      dup2(open(output.path.c_str(), O_WRONLY), STDOUT_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(99);
  }
  close(out[1]);
  close(err[1]);
  Ran ran;
  drain(out[0], err[0], ran);
  int status = 0;
  waitpid(child, &status, 0);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

Tree::Tree() {
  std::string pattern = (fs::temp_directory_path() / "nccl-tune-cli.XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp " + pattern);
  path_ = pattern;
}

Tree::~Tree() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void Tree::write(const std::string& name, const std::string& text) const {
  const fs::path file = path_ + "/" + name;
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

void Tree::link(const std::string& name, const std::string& target) const {
  const fs::path file = path_ + "/" + name;
  fs::create_directories(file.parent_path());
  fs::create_symlink(fs::path(path_ + "/" + target).lexically_relative(file.parent_path()), file);
}

void lay_out_two_gpus(const Tree& tree, const std::vector<std::string>& cpus) {
  tree.write("proc/sys/kernel/hostname", "two-gpus\n");
  tree.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07\n");
  tree.write("sys/devices/system/cpu/online", cpus[0] + "," + cpus[1] + "\n");
  tree.write("sys/devices/system/node/online", "0-1\n");
  for (int i = 0; i < 2; ++i) {
    const std::string n = std::to_string(i), node = "sys/devices/system/node/node" + n;
    tree.write(node + "/cpulist", cpus[static_cast<size_t>(i)] + "\n");
    tree.write(node + "/distance", i == 0 ? "10 21\n" : "21 10\n");
    tree.write(node + "/meminfo", "Node " + n + " MemTotal:       1048576 kB\n");
    const std::string bdf = "0000:" + std::string(i == 0 ? "1" : "8") + "1:00.0";
    const std::string root = "sys/devices/pci0000:" + std::string(i == 0 ? "10" : "80");
    const std::string port = root + "/0000:" + std::string(i == 0 ? "10" : "80") + ":01.0";
    for (const auto& [at, class_code, vendor, device] :
         {std::tuple{port, "0x060400", "0x8086", "0x352a"},
          std::tuple{port + "/" + bdf, "0x030200", "0x10de", "0x2330"}}) {
      tree.write(at + "/class", std::string(class_code) + "\n");
      tree.write(at + "/vendor", std::string(vendor) + "\n");
      tree.write(at + "/device", std::string(device) + "\n");
      tree.write(at + "/numa_node", n + "\n");
      tree.write(at + "/local_cpulist", cpus[static_cast<size_t>(i)] + "\n");
      tree.link("sys/bus/pci/devices/" + fs::path(at).filename().string(), at);
    }
    tree.write("proc/driver/nvidia/gpus/" + bdf + "/information",
               "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-0000000" + n +
                   "-0000-0000-0000-000000000000\nBus Location: \t " + bdf + "\nDevice Minor: \t " + n + "\n");
  }
}

}  // namespace nccltune::test
