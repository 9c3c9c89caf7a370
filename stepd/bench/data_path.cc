// SPDX-License-Identifier: Apache-2.0
#include "bench/data_path.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr size_t kMostWarnings = 5;

std::string read_whole(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// What follows `mark`; "" when the line lacks it.
std::string_view after(std::string_view line, std::string_view mark) {
  const size_t at = line.find(mark);
  return at == std::string_view::npos ? std::string_view() : line.substr(at + mark.size());
}

std::string_view word(std::string_view text) { return text.substr(0, text.find_first_of(" \t,;")); }

// "[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>" -> "mlx5_0:1/IB", "mlx5_1:1/RoCE".
std::vector<std::string> bracketed(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string& part : split(text.substr(0, text.find(';')), ' ')) {
    const size_t end = part.find(']');
    if (part.starts_with("[") && end != std::string::npos && end + 1 < part.size())
      names.push_back(part.substr(end + 1));
  }
  return names;
}

// "NET/IB/3/GDRDMA" -> 3; "NET/IB/3(5)/GDRDMA", sent by the proxy of rank 5: nothing.
std::optional<int> own_device(const std::string& via) {
  const auto parts = split(via, '/');
  if (parts.size() < 3) return std::nullopt;
  const auto number = parse_integer(parts[2], 0, 1 << 16);
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// "[0]mlx5_0:1/IB" names device 0. Devices that NCCL merges since 2.24 come after those that it found.
void take_devices(DataPath& path, std::string_view text) {
  path.devices = bracketed(text);
  for (size_t i = 0; i < path.devices.size(); ++i) path.device_of[static_cast<int>(i)] = path.devices[i];
}

void take_merged_device(DataPath& path, std::string_view text) {
  const size_t end = text.find(']');
  const auto number = parse_integer(text.substr(0, end), 0, 1 << 16);
  const auto name = after(text, "name=");
  if (number && !name.empty()) path.device_of[static_cast<int>(*number)] = word(name);
}

void take_channel(DataPath& path, std::string_view line) {
  if (line.find("[receive]") != std::string_view::npos || line.find("[recv]") != std::string_view::npos) return;
  const std::string via(word(after(line, " via ")));
  if (via.empty()) return;
  ++path.channels[via];
  path.any = true;
  if (via.starts_with("NET/")) {
    ++path.net;
    path.net_gdr += via.find("/GDRDMA") != std::string::npos;
    if (const auto device = own_device(via))
      if (const auto at = path.device_of.find(*device); at != path.device_of.end())
        path.used_devices.insert(at->second);
  } else if (via.starts_with("P2P/")) {
    ++path.p2p;
    path.mnnvl |= via.starts_with("P2P/MNNVL");
  } else if (via.starts_with("SHM")) {
    ++path.shm;
  } else if (via.starts_with("COLLNET/")) {
    ++path.collnet;
    path.sharp |= via.starts_with("COLLNET/SHARP");
  }
}

void take_line(DataPath& path, std::string_view line) {
  if (const auto warning = after(line, "NCCL WARN "); !warning.empty()) {
    if (path.warnings.size() < kMostWarnings &&
        std::find(path.warnings.begin(), path.warnings.end(), warning) == path.warnings.end())
      path.warnings.emplace_back(warning);
    return;
  }
  if (line.find("Channel ") != std::string_view::npos || line.find("CollNet ") != std::string_view::npos)
    take_channel(path, line);
  if (const auto devices = after(line, "NET/IB : Using "); !devices.empty()) take_devices(path, devices);
  if (const auto devices = after(line, "NET/Socket : Using "); !devices.empty() && path.devices.empty())
    take_devices(path, devices);
  if (const auto merged = after(line, "NET/IB : Made virtual device ["); !merged.empty())
    take_merged_device(path, merged);
  if (line.find("NET/IB : No device found") != std::string_view::npos) path.no_ib_device = true;
  for (const std::string_view mark : {"Using network ", "Initialized NET plugin "})
    if (const auto name = after(line, mark); !name.empty()) {
      std::string text(name.substr(0, name.find(" to comm")));
      while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.pop_back();
      if (path.network.empty() || mark == "Using network ") path.network = text;
      path.any = true;
    }
  if (const auto name = after(line, "Assigned NET plugin "); !name.empty()) path.network = word(name), path.any = true;
  // "NCCL INFO NCCL_PROTO set by environment to Simple." (2.18 to 2.30), "NCCL INFO NCCL_SOCKET_IFNAME set to eth0".
  for (const std::string_view mark : {" set by environment to ", " set to "})
    if (const size_t end = line.find(mark); end != std::string_view::npos) {
      const size_t start = line.rfind(' ', end - 1);
      const std::string_view name = line.substr(start + 1, end - start - 1);
      if (name.starts_with("NCCL_")) path.settings.emplace(name);
    }
  if (line.find("Connected NVLS tree") != std::string_view::npos) path.nvls = true;
  if (line.find("NVLS multicast support is available") != std::string_view::npos) path.any = true;
  if (const auto mnnvl = after(line, "MNNVL 1 cliqueId"); !mnnvl.empty()) path.mnnvl = true;
  if (const auto algorithm = after(line, "-> Algo "); !algorithm.empty()) path.algorithms.emplace(word(algorithm));
}

}  // namespace

DataPath parse_data_path(const std::string& log) {
  DataPath path;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) take_line(path, line);
  return path;
}

DataPath read_data_path(const std::string& file) { return parse_data_path(read_whole(file)); }

// "init.cc:1537 -> 1", "[Async thread]": NCCL's way out of its own calls, which only its developers can read.
static bool is_trace(const std::string& line) {
  const size_t arrow = line.find(" -> ");
  return arrow != std::string::npos && arrow > 0 && line.find("NCCL INFO ") != std::string::npos &&
         std::isdigit(static_cast<unsigned char>(line[arrow - 1])) && line.find(".cc:") < arrow;
}

std::vector<std::string> telling_lines(const std::string& log, size_t count) {
  std::vector<std::string> lines;
  size_t warnings = 0;
  for (std::string& line : split(log, '\n')) {
    if (line.empty() || is_trace(line)) continue;
    warnings += line.find("NCCL WARN ") != std::string::npos;
    lines.push_back(std::move(line));
  }
  // The first warnings are the cause, the last lines say where it was.
  size_t room = count - std::min(count, warnings);
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->find("NCCL WARN ") != std::string::npos) continue;
    if (room > 0)
      --room;
    else
      line->clear();
  }
  lines.erase(std::remove(lines.begin(), lines.end(), ""), lines.end());
  if (lines.size() > count) lines.resize(count);
  return lines;
}

std::vector<std::string> last_lines_of(const std::string& file, size_t count) {
  return telling_lines(read_whole(file), count);
}

std::vector<std::string> describe_data_path(const DataPath& path) {
  std::vector<std::string> lines;
  if (!path.any) return lines;
  if (path.shm > 0)
    lines.push_back(
        print("%d local channels go through shared host memory: peer access between those GPUs is not used", path.shm));
  std::string text = "data path of rank 0: ";
  std::vector<std::string> parts;
  if (path.net > 0)
    parts.push_back(print("%s, %d of %d channels with GPUDirect RDMA", path.network.c_str(), path.net_gdr, path.net));
  if (path.net == 0 && !path.network.empty()) parts.push_back("network " + path.network + " (not used)");
  if (!path.devices.empty()) parts.push_back("devices " + join(path.devices, " "));
  if (path.p2p > 0) parts.push_back(print("%d channels peer to peer", path.p2p));
  if (path.nvls) parts.emplace_back("NVLS");
  if (path.sharp) parts.emplace_back("SHARP");
  if (path.mnnvl) parts.emplace_back("MNNVL");
  if (!path.algorithms.empty())
    parts.push_back("algorithms " + join({path.algorithms.begin(), path.algorithms.end()}, " "));
  lines.push_back(text + join(parts, "; "));
  for (const std::string& warning : path.warnings) lines.push_back("NCCL warns: " + warning);
  return lines;
}

}  // namespace nccltune::bench
