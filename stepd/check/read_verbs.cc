// SPDX-License-Identifier: Apache-2.0
// libibverbs by dlopen: its functions by name, its objects as what they are to a caller, pointers.
#include <dlfcn.h>

#include <cerrno>
#include <cstring>

#include "check/verbs_facts.h"

namespace nccltune::check {

namespace {

struct PortAttributes {  // the first fields of ibv_port_attr, the same in every version
  int state, max_mtu, active_mtu;
  unsigned char rest[256];  // more than any version writes
};

template <class Function>
Function symbol(const Symbols& verbs, const char* name) {
  return reinterpret_cast<Function>(verbs(name));
}

// A registration of nothing: -1 is no file, so a kernel and a driver that know DMA-BUF answer EBADF, the others that
// they do not know it. NCCL probes in the same way (src/transport/net_ib).
std::optional<bool> probe_dma_buf(const Symbols& verbs, void* context) {
  auto alloc = symbol<void* (*)(void*)>(verbs, "ibv_alloc_pd");
  auto dealloc = symbol<int (*)(void*)>(verbs, "ibv_dealloc_pd");
  auto reg = symbol<void* (*)(void*, uint64_t, size_t, uint64_t, int, int)>(verbs, "ibv_reg_dmabuf_mr");
  if (!reg) return false;  // rdma-core before 34
  if (!alloc || !dealloc) return std::nullopt;
  void* domain = alloc(context);
  if (!domain) return std::nullopt;
  errno = 0;
  reg(domain, 0, 0, 0, -1, 0);
  const int reason = errno;
  dealloc(domain);
  return reason != EOPNOTSUPP && reason != EPROTONOSUPPORT && reason != ENOSYS;
}

VerbsDevice ask(const Symbols& verbs, void* context, const std::vector<int>& ports) {
  VerbsDevice device;
  auto query = symbol<int (*)(void*, uint8_t, PortAttributes*)>(verbs, "ibv_query_port");
  for (int port : ports) {
    PortAttributes attributes{};
    if (!query || query(context, static_cast<uint8_t>(port), &attributes) != 0) continue;
    // enum ibv_mtu: 1 is 256 bytes, each next one twice that.
    if (attributes.active_mtu >= 1 && attributes.active_mtu <= 5)
      device.active_mtu[port] = 128 << attributes.active_mtu;
  }
  device.dma_buf = probe_dma_buf(verbs, context);
  return device;
}

}  // namespace

VerbsFacts read_verbs(const Symbols& verbs, const std::map<std::string, std::vector<int>>& wanted) {
  VerbsFacts facts;
  auto list = symbol<void** (*)(int*)>(verbs, "ibv_get_device_list");
  auto release = symbol<void (*)(void**)>(verbs, "ibv_free_device_list");
  auto name = symbol<const char* (*)(void*)>(verbs, "ibv_get_device_name");
  auto open = symbol<void* (*)(void*)>(verbs, "ibv_open_device");
  auto close = symbol<int (*)(void*)>(verbs, "ibv_close_device");
  if (!list || !release || !name || !open || !close) {
    facts.error = "libibverbs.so.1 lacks its functions";
    return facts;
  }
  int count = 0;
  void** devices = list(&count);
  if (!devices) {
    facts.error = std::string("no device list: ") + std::strerror(errno);
    return facts;
  }
  for (int i = 0; i < count; ++i) {
    const auto asked = wanted.find(name(devices[i]));
    if (asked == wanted.end()) continue;
    errno = 0;
    void* context = open(devices[i]);
    if (!context) {
      facts.devices[asked->first].error = errno ? std::strerror(errno) : "cannot be opened";
      continue;
    }
    facts.devices[asked->first] = ask(verbs, context, asked->second);
    close(context);
  }
  release(devices);
  return facts;
}

VerbsFacts read_verbs(const std::map<std::string, std::vector<int>>& wanted) {
  void* handle = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!handle) return {.error = "no libibverbs.so.1"};
  // Left open: its provider plugins are not made to be unloaded.
  return read_verbs([handle](const char* name) { return dlsym(handle, name); }, wanted);
}

}  // namespace nccltune::check
