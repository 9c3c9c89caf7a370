// SPDX-License-Identifier: Apache-2.0
// libpmix, loaded when needed: the tool starts on machines without it. Structures are filled by hand, for the macros of
// one version's pmix.h call functions that another version's library lacks.
#pragma once

#if __has_include(<pmix.h>)
#include <pmix.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace nccltune::bench::pmix {

struct Library {
  decltype(&PMIx_Init) init;
  decltype(&PMIx_Finalize) finalize;
  decltype(&PMIx_Put) put;
  decltype(&PMIx_Commit) commit;
  decltype(&PMIx_Fence_nb) fence_nb;
  decltype(&PMIx_Get) get;
  decltype(&PMIx_Get_nb) get_nb;
  decltype(&PMIx_Abort) abort;
  decltype(&PMIx_Error_string) error_string;
  decltype(&PMIx_Get_version) get_version;

  std::string words(pmix_status_t status) const;
  // "OpenPMIx 4.2.2 (PMIx Standard: 4.2, ...)" -> "4.2.2".
  std::string version() const;
};

Result<Library> load_library();

std::string text_of(const pmix_value_t& value);  // "" of what is no text
std::optional<int64_t> number_of(const pmix_value_t& value);
pmix_info_t flag(const char* key);
pmix_info_t integer(const char* key, int number);
void release(pmix_value_t* value);  // PMIx hands out values of malloc; nullptr is none

}  // namespace nccltune::bench::pmix
#endif
