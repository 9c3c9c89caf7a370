// SPDX-License-Identifier: Apache-2.0
// Errors as values. slurmstepd runs this code as root: nothing here throws on bad input.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace nccltune {

// One fault, in the parts that every message of ours has:
//   nccl-tune: OBJECT: what is wrong[: the system's reason][; what to do]
struct Error {
  std::string object;  // what it is about: a device, a file with line and column, an option
  std::string what;    // what is wrong with it; lowercase, no full stop
  std::string reason;  // the system's words (strerror), or empty
  std::string remedy;  // what the reader can do, or empty

  // The message without the leading "nccl-tune: "; one line.
  std::string text() const;
};

// A T, or the Error that kept us from it.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only when ok().
  T& value() { return *std::get_if<0>(&state_); }
  const T& value() const { return *std::get_if<0>(&state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Only when !ok().
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace nccltune
