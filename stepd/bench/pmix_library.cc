// SPDX-License-Identifier: Apache-2.0
#include "bench/pmix_library.h"

#if __has_include(<pmix.h>)
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "bench/text.h"

namespace nccltune::bench::pmix {
namespace {

template <class F>
bool find(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

void name_key(pmix_info_t& info, const char* key) {
  std::memset(&info, 0, sizeof info);
  std::strncpy(info.key, key, sizeof info.key - 1);
}

}  // namespace

std::string Library::words(pmix_status_t status) const { return print("%s (%d)", error_string(status), status); }

std::string Library::version() const {
  std::string text = get_version();
  const size_t from = text.find_first_of("0123456789");
  if (from == std::string::npos) return text;
  std::string number = text.substr(from, text.find_first_not_of("0123456789.", from) - from);
  while (!number.empty() && number.back() == '.') number.pop_back();
  return number;
}

Result<Library> load_library() {
  void* handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr)
    return Error{"libpmix.so.2", "cannot load", dlerror(),
                 "install libpmix2 (pmix), or set LD_LIBRARY_PATH to the one that Slurm uses"};
  Library l{};
  if (!find(handle, "PMIx_Init", l.init) || !find(handle, "PMIx_Finalize", l.finalize) ||
      !find(handle, "PMIx_Put", l.put) || !find(handle, "PMIx_Commit", l.commit) ||
      !find(handle, "PMIx_Fence_nb", l.fence_nb) || !find(handle, "PMIx_Get", l.get) ||
      !find(handle, "PMIx_Get_nb", l.get_nb) || !find(handle, "PMIx_Abort", l.abort) ||
      !find(handle, "PMIx_Error_string", l.error_string) || !find(handle, "PMIx_Get_version", l.get_version))
    return Error{"libpmix.so.2", "lacks a call that every PMIx since version 2 has", dlerror(), ""};
  return l;
}

std::string text_of(const pmix_value_t& value) {
  if (value.type == PMIX_BYTE_OBJECT) return std::string(value.data.bo.bytes, value.data.bo.size);
  return value.type == PMIX_STRING && value.data.string ? value.data.string : "";
}

pmix_info_t flag(const char* key) {
  pmix_info_t info;
  name_key(info, key);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  return info;
}
pmix_info_t integer(const char* key, int number) {
  pmix_info_t info;
  name_key(info, key);
  info.value.type = PMIX_INT;
  info.value.data.integer = number;
  return info;
}

// PMIx hands out values of malloc.
void release(pmix_value_t* value) {
  if (value == nullptr) return;
  if (value->type == PMIX_STRING) std::free(value->data.string);
  if (value->type == PMIX_BYTE_OBJECT) std::free(value->data.bo.bytes);
  std::free(value);
}

std::optional<int64_t> number_of(const pmix_value_t& value) {
  switch (value.type) {
    case PMIX_UINT16:
      return value.data.uint16;
    case PMIX_UINT32:
      return value.data.uint32;
    case PMIX_INT32:
      return value.data.int32;
    case PMIX_INT:
      return value.data.integer;
    case PMIX_UINT:
      return value.data.uint;
    case PMIX_UINT64:
      return static_cast<int64_t>(value.data.uint64);
    case PMIX_SIZE:
      return static_cast<int64_t>(value.data.size);
    case PMIX_PROC_RANK:
      return value.data.rank;
    default:
      return std::nullopt;
  }
}

}  // namespace nccltune::bench::pmix
#endif
