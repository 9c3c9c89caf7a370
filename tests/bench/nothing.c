// SPDX-License-Identifier: Apache-2.0
// A plugin that does nothing but offer an option: what any plugin costs.
#include <slurm/spank.h>

SPANK_PLUGIN(nothing, 1)

static int ignore(int value, const char *argument, int remote) {
  (void)value, (void)argument, (void)remote;
  return 0;
}

static struct spank_option option = {"nothing", "", "does nothing", 2, 0, ignore};

int slurm_spank_init(spank_t spank, int count, char **words) {
  (void)count, (void)words;
  return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}
int slurm_spank_user_init(spank_t spank, int count, char **words) {
  (void)spank, (void)count, (void)words;
  return 0;
}
int slurm_spank_task_init(spank_t spank, int count, char **words) {
  (void)spank, (void)count, (void)words;
  return 0;
}
