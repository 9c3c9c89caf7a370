// SPDX-License-Identifier: Apache-2.0
// What Slurm sees of this library: its identity and the hooks, which only dispatch.
#include <unistd.h>

#include <new>

#include "plugin/guard.h"
#include "plugin/inside.h"
#include "plugin/session.h"
#include "plugin/spank_api.h"

extern "C" {
#pragma GCC visibility push(default)
// Without these the constants of SPANK_PLUGIN would be internal, as C++ has it.
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(nccl_tune, 1)
#pragma GCC visibility pop
}

namespace {

using nccltune::Session;

// The one mutable global: SPANK gives a plugin no place of its own, and the option's callback not even a handle. A bare
// pointer, so that nothing runs when the library is loaded or left.
constinit Session* session = nullptr;

template <class Body>
int dispatch(const char* hook, Body&& body) noexcept {
  if (session == nullptr) return 0;
  return nccltune::guard(hook, session->fault, [&] { return body(*session); });
}

int on_option(int, const char* argument, int) {
  return dispatch("option", [&](Session& s) { return s.take_option(argument); });
}

// spank.h wants char * and only reads them.
spank_option option{
    const_cast<char*>("nccl-tune"),
    const_cast<char*>("KEY,..."),
    const_cast<char*>("tune the NCCL environment and pin tasks beside their GPUs; "
                      "keys: on, off, show (tell, do nothing), env, bind, strict, verbose, profile=NAME, "
                      "sharp, torch"),
    2,  // the argument is optional
    0,
    on_option};

void start(int count, char** words) {
  const spank_context_t context = spank_context();
  const nccltune::ParsedArguments parsed = nccltune::parse_arguments(count, words);
  if (context == S_CTX_SLURMD) nccltune::tell_bad_arguments(parsed);
  delete session;
  session = nullptr;
  if (context == S_CTX_REMOTE || context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR)
    session = new Session(context == S_CTX_REMOTE, parsed);
}

}  // namespace

// The library's second entry in the stack, after pyxis, is called like the first: its word tells them apart. It has a
// part in task_init alone.
int slurm_spank_init(spank_t spank, int count, char** words) {
  if (nccltune::is_inside_entry(count, words)) return 0;
  nccltune::FirstFault unheard;  // without a session there is no task to tell it in: the step runs untuned
  nccltune::guard("slurm_spank_init", unheard, [&] {
    start(count, words);
    return 0;
  });
  return dispatch("slurm_spank_init", [&](Session& s) {
    // sbatch and salloc do not read a static table of options.
    spank_option_register(spank, &option);
    s.look_around(spank);
    return 0;
  });
}

int slurm_spank_user_init(spank_t spank, int count, char** words) {
  if (nccltune::is_inside_entry(count, words)) return 0;
  return dispatch("slurm_spank_user_init", [&](Session& s) {
    s.plan_the_node(spank);
    return 0;
  });
}

int slurm_spank_task_init(spank_t spank, int count, char** words) {
  if (nccltune::is_inside_entry(count, words))
    return dispatch("slurm_spank_task_init", [&](Session& s) {
      s.look_inside_container(spank);
      return 0;
    });
  dispatch("slurm_spank_task_init", [&](Session& s) {
    s.tune_task(spank);
    return 0;
  });
  const int rc = dispatch("slurm_spank_task_init", [&](Session& s) { return s.finish_task(spank); });
  // Slurm passes over the verdict of a plugin that is `optional`, and strict is the user's word. So the task ends here
  // as it would under `required` (src/slurmd/slurmstepd/task.c): by _exit(1), before exec, in its own process and no
  // other.
  if (rc < 0 && session->in_task_process()) _exit(1);
  return rc;
}

int slurm_spank_exit(spank_t, int count, char** words) {
  if (nccltune::is_inside_entry(count, words)) return 0;
  delete session;
  session = nullptr;
  return 0;
}
