// SPDX-License-Identifier: Apache-2.0
// For clang's libFuzzer: one program for all targets, --target=NAME picks one (libFuzzer passes over what begins
// with --).
#include <cstdint>
#include <cstring>

#include "fuzz/targets.h"

namespace {
const fuzz::Target* chosen = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    if (std::strncmp((*argv)[i], "--target=", 9) == 0) chosen = fuzz::find_target((*argv)[i] + 9);
    if (fuzz::print_wire((*argv)[i])) std::exit(0);
  }
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "--target=NAME; known:");
  for (const fuzz::Target& target : fuzz::targets()) std::fprintf(stderr, " %s", target.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size > chosen->max_length) return -1;
  chosen->run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
