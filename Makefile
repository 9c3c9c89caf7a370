# nccl-tune: `make` builds what this machine allows; `make help` lists the targets.
O        ?= build
prefix   ?= /usr/local
libdir   ?= $(prefix)/lib
libexecdir ?= $(prefix)/libexec
sysconfdir ?= /etc
CXX      ?= g++
CUDA_HOME ?= /usr/local/cuda
NCCL_HOME ?= /usr
SLURM_HOME ?= /usr
VERSION  := 0.1.0

CXXFLAGS ?= -O2 -g
WARN     := -Wall -Wextra -Wno-missing-field-initializers $(if $(CI),-Werror)
HARDEN   := -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIC -fvisibility=hidden
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -U_FORTIFY_SOURCE)
# PMIx headers live outside the default path on Debian and Ubuntu.
PMIX_INC := $(firstword $(foreach d,/usr/include /usr/lib/*/pmix2/include /usr/lib/*/pmix/include,$(patsubst %/pmix.h,%,$(wildcard $(d)/pmix.h))))
ALLFLAGS  = -std=c++20 $(CXXFLAGS) $(WARN) $(HARDEN) $(SANFLAGS) -Ispank -Istepd -DNCCLTUNE_VERSION='"$(VERSION)"' -DNCCLTUNE_SYSCONFDIR='"$(sysconfdir)"' -MMD -MP
Q        := $(if $(V),,@)

objs      = $(patsubst %.cc,$(O)/%.o,$(sort $(wildcard $(addsuffix /*.cc,$(1)))))
CORE     := $(call objs,spank/base spank/node spank/policy)
PLUGIN   := $(call objs,spank/plugin)
TOOL     := $(call objs,stepd/cli stepd/check stepd/bench)
HOST     := $(patsubst %.cc,$(O)/%.o,$(sort $(wildcard stepd/worker/host*.cc stepd/worker/common*.cc)))
NCCL_CU  := $(patsubst %.cu,$(O)/%.cu.o,$(sort $(wildcard stepd/worker/*.cu)))
NCCL_CC  := $(patsubst %.cc,$(O)/%.o,$(sort $(wildcard stepd/worker/common*.cc)))
UNIT     := $(call objs,tests/unit)

PLUGIN_SO   := $(O)/nccl_tune.so
TOOL_BIN    := $(O)/nccl-tune
HOST_BIN    := $(O)/nccl-tune-worker-host
NCCL_BIN    := $(O)/nccl-tune-worker-nccl
UNIT_BIN    := $(O)/unit-tests

.PHONY: all plugin tool host-worker nccl-worker unit clean
all: plugin tool host-worker
plugin: $(PLUGIN_SO)
tool: $(TOOL_BIN)
host-worker: $(HOST_BIN)
nccl-worker: $(NCCL_BIN)
unit: $(UNIT_BIN)

$(O)/%.o: %.cc
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX   $<")
	$(Q)$(CXX) $(ALLFLAGS) $(CPPFLAGS) -c -o $@ $<
$(call objs,spank/plugin): CPPFLAGS += -I$(SLURM_HOME)/include
$(call objs,stepd/bench): CPPFLAGS += $(if $(PMIX_INC),-I$(PMIX_INC))
$(UNIT): CPPFLAGS += -Itests -I$(SLURM_HOME)/include

$(PLUGIN_SO): $(CORE) $(PLUGIN)
	$(Q)$(CXX) -shared $(SANFLAGS) -Wl,-z,relro,-z,now $(if $(wildcard spank/plugin/exports.map),-Wl,--version-script=spank/plugin/exports.map) -o $@ $^ -lyaml-cpp -lpugixml $(LDFLAGS)
$(TOOL_BIN): $(CORE) $(TOOL)
	$(Q)$(CXX) $(SANFLAGS) -o $@ $^ -lyaml-cpp -lpugixml -lfmt -ldl -lpthread $(LDFLAGS)
$(HOST_BIN): $(HOST)
	$(Q)$(CXX) $(SANFLAGS) -o $@ $^ -lgloo -lpthread $(LDFLAGS)
NVCC      ?= $(CUDA_HOME)/bin/nvcc
NVCC_ARCH ?= -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90
$(O)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(Q)$(NVCC) -std=c++17 -O2 $(NVCC_ARCH) -Istepd -I$(NCCL_HOME)/include -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(NCCL_BIN): $(NCCL_CU) $(NCCL_CC)
	$(Q)$(NVCC) $(NVCC_ARCH) -o $@ $^ -L$(NCCL_HOME)/lib -lnccl -ldl $(LDFLAGS)
$(UNIT_BIN): $(UNIT) $(CORE) $(filter-out %/main.o,$(TOOL)) $(filter-out %/entry.o,$(PLUGIN))
	$(Q)$(CXX) $(SANFLAGS) -o $@ $^ -lgtest -lgmock -lgtest_main -lyaml-cpp -lpugixml -lfmt -ldl -lpthread $(LDFLAGS)

clean:
	rm -rf $(O)
-include $(shell find $(O) -name '*.d' 2>/dev/null)
