// SPDX-License-Identifier: Apache-2.0
#include "bench/slate.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace nccltune::bench {

Slate& Slate::make() {
  static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
  void* memory = mmap(nullptr, sizeof(Slate), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  // Zeros are a slate with nothing on it. Without memory for it: one that nobody else sees.
  return memory == MAP_FAILED ? *new Slate{} : *new (memory) Slate;
}

void Slate::write(Page page, std::string_view text) {
  Text& to = texts_[page];
  const uint32_t next = 1 - to.current.load(std::memory_order_relaxed);
  to.length[next] = static_cast<uint32_t>(std::min(text.size(), kPageBytes));
  std::memcpy(to.bytes[next], text.data(), to.length[next]);
  to.current.store(next, std::memory_order_release);
}

std::string Slate::read(Page page) const {
  const Text& from = texts_[page];
  const uint32_t current = from.current.load(std::memory_order_acquire);
  return std::string(from.bytes[current], from.length[current]);
}

}  // namespace nccltune::bench
