// SPDX-License-Identifier: Apache-2.0
// The short pass of `make check`, in a build without a fuzzer: replay SEEDS [ROUNDS]. Every file of SEEDS/TARGET/, then
// ROUNDS made-up changes to each, the same in every run. Ends with `N passed, N failed`, a target each.
// replay --target=NAME FILE...: those files alone, to see one finding again.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "fuzz/targets.h"

namespace {

namespace fs = std::filesystem;

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The input that runs now, for the file that a crash leaves.
std::string current;
const char* current_target = "";

void keep_input(int number) {
  char name[128];
  std::snprintf(name, sizeof name, "/tmp/nccl-tune-fuzz-%s.%d", current_target, static_cast<int>(getpid()));
  const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0 && write(fd, current.data(), current.size()) >= 0) dprintf(2, "the input is in %s\n", name);
  signal(number, SIG_DFL);
  raise(number);
}

std::string changed(std::string text, std::mt19937& random, const std::vector<std::string>& others) {
  const auto any = [&](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  static const char* const kWords[] = {"\n", "\t", ",", "-", ":", "/..", "\\x", "0x", "-1", "18446744073709551616",
                                       "\0"};
  for (unsigned n = 1 + random() % 4; n > 0; --n) {
    const std::size_t at = any(text.size() + 1);
    switch (random() % 6) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, any(64));
        break;
      case 2:
        text.insert(at, kWords[random() % std::size(kWords)]);
        break;
      case 3:
        text.insert(at, text.substr(any(text.size() + 1), any(256)));
        break;
      case 4:
        text.resize(at);
        break;
      default: {
        const std::string& other = others[random() % others.size()];
        text = text.substr(0, at) + other.substr(any(other.size() + 1));
      }
    }
  }
  return text;
}

std::size_t run_target(const fuzz::Target& target, const fs::path& folder, int rounds) {
  std::vector<fs::path> files;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds{""};
  for (const fs::path& file : files) seeds.push_back(slurp(file));
  std::mt19937 random(20240607);
  std::size_t runs = 0;
  const auto run = [&](std::string text) {
    if (text.size() > target.max_length) text.resize(target.max_length);
    current = std::move(text);
    target.run(current);
    ++runs;
  };
  for (const std::string& seed : seeds) run(seed);
  for (const std::string& seed : seeds)
    for (int i = 0; i < rounds; ++i) run(changed(seed, random, seeds));
  return runs;
}

// In a process of its own, so that one target's crash is not the end of the others.
bool passes(const fuzz::Target& target, const fs::path& folder, int rounds) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    current_target = target.name;
    for (int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU}) signal(number, keep_input);
    const rlimit cpu{60, 90};  // seconds of CPU: a busy host is no finding
    setrlimit(RLIMIT_CPU, &cpu);
    std::printf("%-10s %zu inputs\n", target.name, run_target(target, folder, rounds));
    std::fflush(nullptr);
    _exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  if (status == 0) return true;
  std::printf("FAIL %s: status %d\n", target.name, status);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && fuzz::print_wire(argv[1])) return 0;
  if (argc > 2 && std::strncmp(argv[1], "--target=", 9) == 0) {
    const fuzz::Target* target = fuzz::find_target(argv[1] + 9);
    if (target == nullptr) return 2;
    for (int i = 2; i < argc; ++i) target->run(slurp(argv[i]));
    return 0;
  }
  if (argc < 2) return 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 20;
  int passed = 0, failed = 0;
  for (const fuzz::Target& target : fuzz::targets())
    ++(passes(target, fs::path(argv[1]) / target.name, rounds) ? passed : failed);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
