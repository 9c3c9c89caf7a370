// SPDX-License-Identifier: Apache-2.0
// alltoallv's traffic from the environment, with the names and the file format of nccl-tests.
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "worker/common_io.h"
#include "worker/common_shape.h"

namespace nccltune::worker {

// A finite number >= 0 that fills the whole word.
static bool parse_number(const std::string& word, double& value) {
  char* end = nullptr;
  errno = 0;
  value = std::strtod(word.c_str(), &end);
  return errno == 0 && end != word.c_str() && *end == '\0' && std::isfinite(value) && value >= 0;
}

static double number_from(const char* name, double otherwise, double most) {
  const char* text = std::getenv(name);
  if (!text || !*text) return otherwise;
  double value = 0;
  if (!parse_number(text, value) || value > most) {
    throw Failed(protocol::FailureKind::usage, std::string(name) + ": '" + text + "' is no number in range",
                 "give a number from 0 to " + std::to_string(most));
  }
  return value;
}

static std::vector<std::vector<uint64_t>> read_matrix(const std::string& path, double factor) {
  const auto refuse = [&](const std::string& what) {
    throw Failed(protocol::FailureKind::usage, path + ": " + what,
                 "NCCL_TESTS_ALLTOALLV_MATRIX_FILE wants a square matrix of bytes, one row a sending rank");
  };
  std::ifstream file(path);
  if (!file) refuse(std::string("cannot be read: ") + std::strerror(errno));
  std::vector<std::vector<uint64_t>> matrix;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<uint64_t> row;
    for (std::string word; words >> word;) {
      double value = 0;
      if (!parse_number(word, value) || value * factor > 1e18) refuse("'" + word + "' is no number of bytes");
      row.push_back(static_cast<uint64_t>(value * factor) & ~uint64_t(15));
    }
    if (!row.empty()) matrix.push_back(std::move(row));
  }
  if (matrix.empty()) refuse("is empty");
  for (const auto& row : matrix) {
    if (row.size() != matrix.size()) {
      refuse("has " + std::to_string(matrix.size()) + " rows but a row of " + std::to_string(row.size()) + " columns");
    }
  }
  return matrix;
}

Traffic read_traffic() {
  Traffic traffic;
  traffic.spread = number_from("NCCL_TESTS_ALLTOALLV_SPREAD", 1.0, 1.0);
  const char* path = std::getenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
  if (path && *path) traffic.matrix = read_matrix(path, number_from("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 1.0, 1e15));
  return traffic;
}

}  // namespace nccltune::worker
