// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace nccltune {

// The first thing that went wrong in a step, kept until a task can tell it. A fixed buffer: it must also take
// bad_alloc.
class FirstFault {
 public:
  // Takes the text (a message without "nccl-tune: "), cut to fit; later ones are ignored, as they mostly follow from
  // it.
  void keep(const char* text) noexcept;
  // "WHERE: WHAT".
  void keep(const char* where, const char* what) noexcept;

  bool kept() const noexcept { return text_[0] != '\0'; }
  const char* text() const noexcept { return text_; }

 private:
  static constexpr std::size_t kRoom = 512;
  char text_[kRoom] = {};
};

}  // namespace nccltune
