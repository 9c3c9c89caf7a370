// SPDX-License-Identifier: Apache-2.0
#include "fake/spank.h"

#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace fake {
namespace {

// S_JOB_ENV points into Slurm's own array; this one lives until the next call.
std::vector<std::string> entries;
std::vector<char*> pointers;

char** environment_array(Host& h) {
  if (h.env_is_null) return nullptr;
  entries.clear();
  pointers.clear();
  for (const auto& [name, value] : h.env) entries.push_back(name + "=" + value);
  entries.insert(entries.end(), h.odd_entries.begin(), h.odd_entries.end());
  for (std::string& entry : entries) pointers.push_back(entry.data());
  pointers.push_back(nullptr);
  return pointers.data();
}

// True: the function is to fail.
bool enter(const char* function) {
  if (host().throws == function) throw std::runtime_error(std::string(function) + " threw");
  if (host().throws_int == function) throw 7;
  return host().fails == function;
}

void record(Level level, const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(length + 1, '\0');
  std::vsnprintf(text.data(), text.size(), format, arguments);
  text.resize(length);
  host().log.push_back({level, text});
  if (host().log_file < 0) return;
  // One line a record; a plugin that writes several lines at once is to be seen.
  for (char& c : text)
    if (c == '\n') c = '\v';
  const std::string record = std::to_string(static_cast<int>(level)) + text + "\n";
  if (write(host().log_file, record.data(), record.size()) < 0) host().misuse.push_back("the log cannot be written");
}

bool is_remote(const char* function) {
  if (host().context == S_CTX_REMOTE) return true;
  host().misuse.push_back(std::string(function) + " outside slurmstepd");
  return false;
}

}  // namespace

Host& host() {
  static Host one;
  return one;
}

std::vector<LogLine> read_log(int file) {
  std::vector<LogLine> log;
  std::string text;
  std::array<char, 4096> chunk;
  lseek(file, 0, SEEK_SET);
  for (ssize_t n; (n = read(file, chunk.data(), chunk.size())) > 0;) text.append(chunk.data(), n);
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    log.push_back({static_cast<Level>(text[at] - '0'), text.substr(at + 1, end - at - 1)});
  return log;
}

std::string logged(const std::vector<LogLine>& log, Level level) {
  std::string text;
  for (const LogLine& line : log)
    if (line.level == level) text += line.text + "\n";
  return text;
}

}  // namespace fake

using fake::enter;
using fake::host;

namespace {

// slurm_errno.h has it as a macro, a plain int.
constexpr spank_err_t kSuccess = static_cast<spank_err_t>(ESPANK_SUCCESS);

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

spank_context_t spank_context(void) {
  enter("spank_context");
  return host().context;
}

int spank_remote(spank_t) { return host().context == S_CTX_REMOTE ? 1 : 0; }

const char* spank_strerror(spank_err_t error) { return error == ESPANK_SUCCESS ? "Success" : "Generic error"; }

spank_err_t spank_option_register(spank_t, spank_option* option) {
  if (enter("spank_option_register")) return ESPANK_ERROR;
  if (host().hook != "slurm_spank_init") {
    host().misuse.push_back("spank_option_register outside slurm_spank_init");
    return ESPANK_BAD_ARG;
  }
  if (option == nullptr || option->name == nullptr || std::strlen(option->name) > SPANK_OPTION_MAXLEN)
    return ESPANK_BAD_ARG;
  host().options.push_back(*option);
  return kSuccess;
}

spank_err_t spank_get_item(spank_t, spank_item_t item, ...) {
  if (enter("spank_get_item")) return ESPANK_ERROR;
  if (host().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
  va_list arguments;
  va_start(arguments, item);
  spank_err_t rc = kSuccess;
  switch (item) {
    case S_JOB_STEPID:
      *va_arg(arguments, uint32_t*) = host().step_id;
      break;
    case S_JOB_NODEID:
      *va_arg(arguments, uint32_t*) = host().node_id;
      break;
    case S_JOB_LOCAL_TASK_COUNT:
      *va_arg(arguments, uint32_t*) = host().local_tasks;
      break;
    case S_JOB_ENV:
      *va_arg(arguments, char***) = fake::environment_array(host());
      break;
    case S_TASK_ID:
      if (host().task_id)
        *va_arg(arguments, int*) = *host().task_id;
      else
        rc = ESPANK_NOT_TASK;
      break;
    default:
      host().misuse.push_back("spank_get_item " + std::to_string(item) + " is not known to this host");
      rc = ESPANK_BAD_ARG;
  }
  va_end(arguments);
  return rc;
}

spank_err_t spank_getenv(spank_t, const char* name, char* buffer, int size) {
  if (enter("spank_getenv")) return ESPANK_ERROR;
  if (!fake::is_remote("spank_getenv")) return ESPANK_NOT_REMOTE;
  if (name == nullptr || buffer == nullptr || size <= 0) return ESPANK_BAD_ARG;
  const auto found = host().env.find(name);
  if (found == host().env.end()) return ESPANK_ENV_NOEXIST;
  // As in Slurm: a value that does not fit is copied in part, and ends at the buffer's end.
  const int length = std::snprintf(buffer, size, "%s", found->second.c_str());
  return length >= size ? ESPANK_NOSPACE : kSuccess;
}

spank_err_t spank_setenv(spank_t, const char* name, const char* value, int overwrite) {
  if (enter("spank_setenv")) return ESPANK_ERROR;
  if (!fake::is_remote("spank_setenv")) return ESPANK_NOT_REMOTE;
  if (name == nullptr || value == nullptr) return ESPANK_BAD_ARG;
  if (!overwrite && host().env.count(name) > 0) return ESPANK_ENV_EXISTS;
  host().env[name] = value;
  return kSuccess;
}

spank_err_t spank_unsetenv(spank_t, const char* name) {
  if (enter("spank_unsetenv")) return ESPANK_ERROR;
  if (!fake::is_remote("spank_unsetenv")) return ESPANK_NOT_REMOTE;
  if (name == nullptr) return ESPANK_BAD_ARG;
  host().env.erase(name);
  return kSuccess;
}

#define FAKE_LOG(function, level)           \
  void function(const char* format, ...) {  \
    enter(#function);                       \
    va_list arguments;                      \
    va_start(arguments, format);            \
    fake::record(level, format, arguments); \
    va_end(arguments);                      \
  }
FAKE_LOG(slurm_info, fake::Level::info)
FAKE_LOG(slurm_error, fake::Level::error)
FAKE_LOG(slurm_verbose, fake::Level::verbose)
FAKE_LOG(slurm_debug, fake::Level::debug)
FAKE_LOG(slurm_spank_log, fake::Level::spank_log)

}  // extern "C"
#pragma GCC visibility pop
