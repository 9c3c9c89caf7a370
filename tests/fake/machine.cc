// SPDX-License-Identifier: Apache-2.0
#include "fake/machine.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "plugin/pin.h"

namespace fake {
namespace fs = std::filesystem;

Folder::Folder() {
  std::string pattern = (fs::temp_directory_path() / "nccl-tune-test.XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp " + pattern);
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string Folder::write(const std::string& name, const std::string& text) const {
  const fs::path file = path_ + "/" + name;
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
  return file.string();
}

void Folder::link(const std::string& name, const std::string& target) const {
  const fs::path file = path_ + "/" + name;
  fs::create_directories(file.parent_path());
  fs::create_symlink(fs::path(path_ + "/" + target).lexically_relative(file.parent_path()), file);
}

Machine::Machine() {
  const auto mask = nccltune::current_mask();
  if (mask) cpus_ = mask->ids();
  if (cpus_.size() > 2) cpus_.resize(2);
  std::string all;
  for (std::size_t i = 0; i < cpus_.size(); ++i) {
    add_numa(i, cpus_[i]);
    all += (i == 0 ? "" : ",") + std::to_string(cpus_[i]);
    const std::string root = i == 0 ? "pci0000:00" : "pci0000:80";
    const std::string domain = i == 0 ? "0000:0" : "0000:8";
    // A switch with the GPU and the HCA below it.
    const std::string port = "sys/devices/" + root + "/" + domain + "0:01.0";
    add_function("sys/devices/" + root, domain + "0:01.0", "0x060400", "0x1000", "0xc030", i);
    add_function(port, domain + "1:00.0", "0x060400", "0x1000", "0xc030", i);
    for (const char* slot : {"0", "1"})
      add_function(port + "/" + domain + "1:00.0", domain + "2:0" + slot + ".0", "0x060400", "0x1000", "0xc030", i);
    const std::string below = port + "/" + domain + "1:00.0/" + domain + "2:0";
    add_function(below + "0.0", domain + "3:00.0", "0x030200", "0x10de", "0x2330", i);
    add_gpu(domain + "3:00.0", i);
    add_function(below + "1.0", domain + "4:00.0", "0x020700", "0x15b3", "0x1021", i);
    add_hca(below + "1.0", domain + "4:00.0", "mlx5_" + std::to_string(i));
  }
  folder_.write("sys/devices/system/cpu/online", all + "\n");
  folder_.write("sys/devices/system/node/online", cpus_.size() > 1 ? "0-1\n" : "0\n");
  folder_.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07\n");
  add_network();
}

void Machine::add_numa(int id, int cpu) const {
  const std::string at = "sys/devices/system/node/node" + std::to_string(id);
  folder_.write(at + "/cpulist", std::to_string(cpu) + "\n");
  folder_.write(at + "/distance", id == 0 ? "10 20\n" : "20 10\n");
  folder_.write(at + "/meminfo", "Node " + std::to_string(id) + " MemTotal:       1048576 kB\n");
}

void Machine::add_function(const std::string& parent, const std::string& bdf, const std::string& class_code,
                           const std::string& vendor, const std::string& device, int numa) const {
  const std::string at = parent + "/" + bdf;
  folder_.write(at + "/class", class_code + "\n");
  folder_.write(at + "/vendor", vendor + "\n");
  folder_.write(at + "/device", device + "\n");
  folder_.write(at + "/numa_node", std::to_string(numa) + "\n");
  folder_.write(at + "/local_cpulist", std::to_string(cpus_[numa]) + "\n");
  folder_.link("sys/bus/pci/devices/" + bdf, at);
}

void Machine::add_gpu(const std::string& bdf, int minor) const {
  const std::string uuid = "GPU-0000000" + std::to_string(minor) + "-0000-0000-0000-000000000000";
  folder_.write("proc/driver/nvidia/gpus/" + bdf + "/information",
                "Model: \t\t NVIDIA H100\nGPU UUID: \t " + uuid + "\nBus Location: \t " + bdf + "\nDevice Minor: \t " +
                    std::to_string(minor) + "\n");
}

void Machine::add_hca(const std::string& parent, const std::string& bdf, const std::string& name) const {
  const std::string function = parent + "/" + bdf;
  const std::string at = function + "/infiniband/" + name;
  folder_.link("sys/class/infiniband/" + name, at);
  folder_.write(at + "/node_type", "1: CA\n");
  folder_.write(at + "/hca_type", "MT4129\n");
  folder_.link(at + "/device", function);
  const std::string port = at + "/ports/1";
  folder_.write(port + "/state", "4: ACTIVE\n");
  folder_.write(port + "/phys_state", "5: LinkUp\n");
  folder_.write(port + "/rate", "400 Gb/sec (4X NDR)\n");
  folder_.write(port + "/link_layer", "InfiniBand\n");
  folder_.write(port + "/lid", "0x1\n");
  folder_.write(port + "/gids/0", "fe80:0000:0000:0000:0000:0000:0000:000" + name.substr(5) + "\n");
}

void Machine::add_network() const {
  const std::string device = "sys/devices/pci0000:00/0000:00:1f.0";
  add_function("sys/devices/pci0000:00", "0000:00:1f.0", "0x020000", "0x8086", "0x1572", 0);
  const std::string port = device + "/net/eth0";
  folder_.link("sys/class/net/eth0", port);
  folder_.link(port + "/device", device);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"ifindex", "2"},
                                                        {"flags", "0x1043"},
                                                        {"carrier", "1"},
                                                        {"operstate", "up"},
                                                        {"type", "1"},
                                                        {"speed", "10000"},
                                                        {"mtu", "1500"},
                                                        {"address", "02:00:00:00:00:01"},
                                                        {"uevent", "INTERFACE=eth0\nIFINDEX=2"}})
    folder_.write(port + "/" + name, value + "\n");
  folder_.write("proc/net/route",
                "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
                "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
                "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
  folder_.write("proc/net/fib_trie", "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.7\n        /32 host LOCAL\n");
  folder_.write("etc/hosts", "127.0.0.1 localhost\n10.0.0.7 n1 n1.cluster\n");
}

}  // namespace fake
