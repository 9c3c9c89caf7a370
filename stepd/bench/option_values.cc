// SPDX-License-Identifier: Apache-2.0
#include "bench/option_values.h"

#include <algorithm>
#include <vector>

namespace nccltune::bench {
namespace {

const std::vector<std::string> kFaults = {"none",  "flip", "hang",
                                          "crash", "slow", "waver"};  // in the order of protocol::Fault

}  // namespace

CLI::Option* worker_option(CLI::App& app, WorkerChoice& worker, bool takes_none) {
  return app
      .add_option_function<std::string>(
          "--worker",
          [&worker, takes_none](const std::string& text) {
            if (text == "host")
              worker = WorkerChoice::host;
            else if (text == "nccl")
              worker = WorkerChoice::nccl;
            else if (text == "auto")
              worker = WorkerChoice::automatic;
            else if (text == "none" && takes_none)
              worker = WorkerChoice::none;
            else
              throw CLI::ValidationError("--worker",
                                         print("'%s' is not a worker; known: auto, nccl, host", text.c_str()));
          },
          "nccl: GPUs; host: host memory over TCP; auto (auto)")
      ->take_last();
}

std::optional<uint32_t> parse_fault(const std::string& word) {
  const auto kind = std::find(kFaults.begin(), kFaults.end(), word);
  if (kind == kFaults.end()) return std::nullopt;
  return static_cast<uint32_t>(kind - kFaults.begin());
}

std::string known_faults() { return join(kFaults, ", "); }

std::string refusal_line(const std::string& name, const std::string& command, const std::string& what) {
  return "nccl-tune: " + name + ": " + what + "; see nccl-tune " + command + " --help\n";
}

std::optional<EndedParse> parse_line(CLI::App& app, const std::string& name, const std::string& command, int argc,
                                     const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return EndedParse{app.help(), 0};
  } catch (const CLI::ParseError& fault) {
    return EndedParse{refusal_line(name, command, fault.what()), 2};
  }
  return std::nullopt;
}

}  // namespace nccltune::bench
