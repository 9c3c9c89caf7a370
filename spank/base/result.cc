// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

namespace nccltune {
namespace {

// A message is one line whatever a file name or the system put into it.
void append_one_line(std::string& out, const std::string& part) {
  for (char c : part) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
}

}  // namespace

std::string Error::text() const {
  std::string out;
  if (!object.empty()) {
    append_one_line(out, object);
    out += ": ";
  }
  append_one_line(out, what);
  if (!reason.empty()) {
    out += ": ";
    append_one_line(out, reason);
  }
  if (!remedy.empty()) {
    out += "; ";
    append_one_line(out, remedy);
  }
  return out;
}

}  // namespace nccltune
