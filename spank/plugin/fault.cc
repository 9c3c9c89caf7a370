// SPDX-License-Identifier: Apache-2.0
#include "plugin/fault.h"

#include <cstdio>

namespace nccltune {
namespace {

// One line, whatever a device or a key is called.
void flatten(char* text) noexcept {
  for (; *text != '\0'; ++text)
    if (static_cast<unsigned char>(*text) < 0x20 || *text == 0x7f) *text = '?';
}

}  // namespace

void FirstFault::keep(const char* text) noexcept {
  if (kept()) return;
  std::snprintf(text_, kRoom, "%s", text);
  flatten(text_);
}

void FirstFault::keep(const char* where, const char* what) noexcept {
  if (kept()) return;
  std::snprintf(text_, kRoom, "%s: %s", where, what);
  flatten(text_);
}

}  // namespace nccltune
