// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

constexpr char kDriverGpus[] = "/proc/driver/nvidia/gpus";
constexpr uint32_t kNvidia = 0x10de;

// One /proc/driver/nvidia/gpus/BDF/information: "Device Minor: \t 0", "GPU UUID: \t GPU-...", "Bus Location: \t
// 0000:07:00.0".
Gpu parse_information(const std::string& text, const std::string& folder) {
  Gpu gpu;
  gpu.bdf = normal_bdf(folder).value_or("");
  for (std::string_view line : split_lines(text)) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, colon)), value = trim(line.substr(colon + 1));
    if (key == "Device Minor") {
      if (const auto minor = parse_int(value, 0, 65535)) gpu.minor = static_cast<int>(*minor);
    } else if (key == "GPU UUID") {
      // Question marks until the driver has initialised the GPU (persistence mode off).
      if (value.find('?') == std::string_view::npos) gpu.uuid = value;
    } else if (key == "Model") {
      gpu.model = value;
    } else if (key == "Bus Location") {
      if (const auto bdf = normal_bdf(value)) gpu.bdf = *bdf;
    }
  }
  return gpu;
}

// Without the driver: display and 3D controllers of the vendor (not the audio, USB and NVSwitch functions beside them).
void find_gpus_by_class(Node& node) {
  for (const auto& [bdf, device] : node.pci) {
    if (device.vendor != kNvidia || !device.class_code) continue;
    const uint32_t code = *device.class_code >> 8;
    if (code != 0x0300 && code != 0x0302) continue;
    node.gpus.push_back({bdf, std::nullopt, "", ""});
    node.notes.push_back({bdf, "no minor and no UUID: the NVIDIA driver shows nothing under /proc/driver/nvidia/gpus"});
  }
}

}  // namespace

void read_gpus(const Root& root, Node& node) {
  const std::vector<std::string> folders = root.list(kDriverGpus);
  for (const std::string& folder : folders) {
    const auto text = root.read(std::string(kDriverGpus) + "/" + folder + "/information");
    Gpu gpu = parse_information(text.value_or(""), folder);
    if (gpu.bdf.empty()) {
      node.notes.push_back({std::string(kDriverGpus) + "/" + folder, "its PCI address cannot be read; GPU left out"});
      continue;
    }
    if (!gpu.minor) node.notes.push_back({gpu.bdf, "the NVIDIA driver does not tell its minor"});
    if (gpu.uuid.empty()) node.notes.push_back({gpu.bdf, "the NVIDIA driver does not tell its UUID"});
    node.gpus.push_back(std::move(gpu));
  }
  if (folders.empty()) find_gpus_by_class(node);
  std::sort(node.gpus.begin(), node.gpus.end(), [](const Gpu& a, const Gpu& b) { return a.bdf < b.bdf; });
}

}  // namespace nccltune
