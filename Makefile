# SPDX-License-Identifier: Apache-2.0
# nccl-tune. `make` builds what this machine allows; `make help` lists the targets and the variables.
VERSION    := 0.1.0

O          ?= build
prefix     ?= /usr/local
bindir     ?= $(prefix)/bin
libdir     ?= $(prefix)/lib
libexecdir ?= $(prefix)/libexec
docdir     ?= $(prefix)/share/doc/nccl-tune
sysconfdir ?= /etc
SLURM_HOME ?= /usr
PMIX_HOME  ?= /usr
CUDA_HOME  ?= /usr/local/cuda
NCCL_HOME  ?= /usr
NVCC       ?= $(CUDA_HOME)/bin/nvcc
NVCC_ARCH  ?= -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=[sm_90,compute_90]
CXXFLAGS   ?= -O2 -g

Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))
.DELETE_ON_ERROR:

# ---- flags -----------------------------------------------------------------------------------------------------------
# g++ 12 takes "a" + std::string for an overlapping copy: https://gcc.gnu.org/PR105651. clang 21 warns where it cannot unroll
# the loop that libstdc++ 16 asks to be unrolled in std::find_if (bits/stl_algobase.h).
WARN     := -Wall -Wextra $(if $(findstring clang,$(notdir $(CXX))),-Wno-pass-failed,-Wno-restrict) -Wno-missing-field-initializers $(if $(CI),-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
CPU      := $(firstword $(subst -, ,$(shell $(CXX) -dumpmachine 2>/dev/null)))
HARDEN   := -fPIC -fvisibility=hidden -fstack-protector-strong -fstack-clash-protection \
            $(if $(filter x86_64 i686,$(CPU)),-fcf-protection) $(if $(SAN),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
DEFINES  := -DNCCLTUNE_VERSION='"$(VERSION)"' -DNCCLTUNE_SYSCONFDIR='"$(sysconfdir)"' \
            -DNCCLTUNE_LIBEXECDIR='"$(libexecdir)/nccl-tune"'
ALLFLAGS := -std=c++20 $(CXXFLAGS) $(WARN) $(HARDEN) $(SANFLAGS) $(DEFINES) -Ispank -Istepd $(CPPFLAGS)
LINK     := $(SANFLAGS) -Wl,-z,relro,-z,now,-z,noexecstack,--as-needed $(LDFLAGS)
PMIX_INC := $(firstword $(dir $(wildcard $(addsuffix /pmix.h,$(PMIX_HOME)/include $(PMIX_HOME)/lib/*/pmix*/include))))

# When a flag changes, all is made anew: every object and program depends on $(O)/flags.
FLAGS := $(CXX) $(ALLFLAGS) $(LINK) $(SLURM_HOME) $(PMIX_INC) $(NVCC) $(NVCC_ARCH) $(NCCL_HOME)
ifneq ($(filter-out help clean deps dist deb rpm,$(or $(MAKECMDGOALS),all)),)
$(shell mkdir -p $(O)/probe)
$(file >$(O)/flags.now,$(FLAGS))
$(shell cmp -s $(O)/flags.now $(O)/flags || { rm -f $(O)/probe/*; cp $(O)/flags.now $(O)/flags; })

# What a portable tool holds itself: see TOOL_LIBS. Sections that nothing calls go: one of libstdc++ would ask for a newer glibc.
, := ,
STATIC_LIBS := -static-libstdc++ -static-libgcc -Wl$(,)--gc-sections -Wl$(,)-Bstatic -lyaml-cpp -lpugixml -Wl$(,)-Bdynamic

# ---- probes ----------------------------------------------------------------------------------------------------------
# $(call probe,NAME,HEADER,FLAGS,CODE,MESSAGE) is empty when a program with that CODE compiles and links, else MESSAGE.
# A success is kept in $(O)/probe; after a failure it is tried again, for the library may have come since.
probe = $(shell p=$(O)/probe/$(1); test -x $$p || { echo 'int main() { $(4) }' >$$p.cc; \
          $(CXX) $(filter-out -Werror,$(ALLFLAGS)) -O0 -g0 -include $(2) $$p.cc -o $$p $(LINK) $(3) >$$p.log 2>&1; }; \
          test -x $$p || echo '$(5)')
no_cxx   := $(call probe,cxx,compare,,return 1 <=> 2 == 0;,no C++20 compiler in $(CXX) (set CXX; g++ 11 or newer))
no_yaml  := $(call probe,yaml,yaml-cpp/yaml.h,-lyaml-cpp,YAML::Load("a");,no yaml-cpp (libyaml-cpp-dev or yaml-cpp-devel))
no_pugi  := $(call probe,pugixml,pugixml.hpp,-lpugixml,pugi::xml_document().load_string("");,no pugixml (libpugixml-dev or pugixml-devel))
no_spank := $(call probe,spank,slurm/spank.h,-I$(SLURM_HOME)/include,,no slurm/spank.h under $(SLURM_HOME)/include (libslurm-dev or slurm-devel; set SLURM_HOME))
no_cli11 := $(call probe,cli11,CLI/CLI.hpp,,CLI::App app;,no CLI11 (libcli11-dev or cli11-devel))
no_json  := $(call probe,json,nlohmann/json.hpp,,nlohmann::json j;,no nlohmann-json (nlohmann-json3-dev or json-devel))
no_fmt   := $(call probe,fmt,fmt/format.h,-lfmt,fmt::format("a");,no fmt (libfmt-dev or fmt-devel))
no_static := $(if $(findstring clang,$(notdir $(CXX))),it takes g++,$(call probe,static,yaml-cpp/yaml.h,$(STATIC_LIBS),YAML::Load("a");,no static yaml-cpp and pugixml (libyaml-cpp-dev and libpugixml-dev or their -static packages)))
no_gloo  := $(call probe,gloo,gloo/transport/tcp/device.h,-lgloo,gloo::transport::tcp::CreateDevice("lo");,no Gloo (libgloo-dev))
no_gtest := $(call probe,gtest,gmock/gmock.h,-lgmock -lgtest,testing::InitGoogleMock();,no GoogleTest (libgtest-dev and libgmock-dev or gtest-devel and gmock-devel))
no_bench := $(call probe,benchmark,benchmark/benchmark.h,-lbenchmark -lpthread,benchmark::RunSpecifiedBenchmarks();,no Google Benchmark (libbenchmark-dev or google-benchmark-devel))
no_hwloc := $(call probe,hwloc,hwloc.h,-lhwloc,return !hwloc_get_api_version();,no hwloc (libhwloc-dev or hwloc-devel))
no_pmix  := $(if $(PMIX_INC),,no pmix.h under $(PMIX_HOME) (libpmix-dev or pmix-devel; set PMIX_HOME))
no_cuda  := $(if $(wildcard $(NVCC)),,no CUDA Toolkit under $(CUDA_HOME) (set CUDA_HOME))
no_nccl  := $(if $(no_cuda),,$(call probe,nccl,nccl.h,-I$(NCCL_HOME)/include -isystem $(CUDA_HOME)/include -L$(NCCL_HOME)/lib -lnccl,int v; ncclGetVersion(&v);,no NCCL under $(NCCL_HOME) (libnccl-dev or libnccl-devel; set NCCL_HOME)))
endif
no_core  := $(or $(no_cxx),$(no_yaml),$(no_pugi))
no_tool  := $(or $(no_core),$(no_cli11),$(no_json),$(no_fmt))

# ---- what there is to build ------------------------------------------------------------------------------------------
objs   = $(patsubst %.cc,$(O)/%.o,$(sort $(wildcard $(addsuffix /*.cc,$(1)))))
CORE   := $(call objs,spank/base spank/node spank/policy)
PLUGIN := $(call objs,spank/plugin)
TOOL   := $(call objs,stepd/cli stepd/check stepd/bench) $(O)/page/report_assets.o
HOST   := $(patsubst %.cc,$(O)/%.o,$(sort $(wildcard stepd/worker/host*.cc stepd/worker/common*.cc)))
NCCL   := $(patsubst %.cu,$(O)/%.cu.o,$(sort $(wildcard stepd/worker/*.cu))) \
          $(patsubst %.cc,$(O)/%.o,$(sort $(wildcard stepd/worker/common*.cc stepd/worker/nccl*.cc)))
# hwloc judges the facts where it is installed.
UNIT   := $(filter-out $(if $(no_hwloc),%/node_hwloc.o),$(call objs,tests/unit))
FAKE   := $(call objs,tests/fake)
BENCH  := $(call objs,tests/bench)
# Everything that takes bytes from outside, plugin, command lines and results included: the fuzzer's program and the plain one.
# The facts are read in its own process: one fork an input would hide what they reach.
READERS := $(foreach f,options option_values split text collectives compare_options compare_variants pairs_options pairs_wire expected json data_path \
             rank_path frame hostlist pmi2_text record digest schedule sink statistics pairs tune_state tune_space tune_known tune_search tune_candidates,$(O)/stepd/bench/$(f).o) \
           $(foreach f,report_json report_nccl_tests report_text table output plan_json tune_files plan_text topo_text topo_json topo_matrix \
             topo_view topo_links check_formats,$(O)/stepd/cli/$(f).o) $(call objs,stepd/check)
FUZZED := $(CORE) $(filter-out %/gather.o,$(PLUGIN)) $(READERS) \
          $(O)/tests/fake/spank.o $(filter-out %/replay.o %/libfuzzer.o,$(call objs,tests/fuzz))

# Each part: its file, and why it is left out here, where it is.
PARTS  := plugin tool host-worker nccl-worker
plugin.file      := $(O)/nccl_tune.so
tool.file        := $(O)/nccl-tune
host-worker.file := $(O)/nccl-tune-worker-host
nccl-worker.file := $(O)/nccl-tune-worker-nccl
portable.file    := $(O)/portable/nccl-tune
unit.file        := $(O)/unit-tests
spank-unit.file  := $(O)/spank-tests
fake.file        := $(O)/fake-tests
benchmarks.file  := $(O)/benchmarks
replay.file      := $(O)/fuzz-replay
fuzzer.file      := $(O)/fuzz
plugin.why       := $(or $(no_core),$(no_spank))
tool.why         := $(or $(no_tool),$(if $(PORTABLE),$(no_static)))
portable.why     := $(or $(no_tool),$(no_static))
host-worker.why  := $(or $(no_cxx),$(no_gloo))
nccl-worker.why  := $(or $(no_cxx),$(no_cuda),$(no_nccl))
unit.why         := $(or $(no_tool),$(no_spank),$(no_gtest))
spank-unit.why   := $(or $(plugin.why),$(no_gtest))
fake.why         := $(or $(plugin.why),$(no_gtest))
benchmarks.why   := $(or $(no_core),$(no_bench))
replay.why       := $(or $(plugin.why),$(no_tool))
fuzzer.why       := $(replay.why)
part.name         = $(subst -, ,$(1))

BUILT := $(foreach p,$(PARTS),$(if $($(p).why),,$(p)))
.PHONY: all $(PARTS) portable unit spank-unit fake benchmarks replay fuzzer
all: $(BUILT)
	@$(foreach p,$(PARTS),$(if $($(p).why),echo 'left out: $(call part.name,$(p)): $($(p).why)';)) \
	$(if $(no_pmix),echo 'left out: PMIx in nccl-tune bench: $(no_pmix)';) \
	test ! -s $(O)/page/chart.why || echo "left out: pages of nccl-tune report: $$(cat $(O)/page/chart.why)"
# A part asked for by name that cannot be built here stops make with its line.
define part
$(1): $$(if $$($(1).why),,$$($(1).file))
	$$(if $$($(1).why),@echo 'left out: $$(call part.name,$(1)): $$($(1).why)' >&2; exit 1,@:)
endef
$(foreach p,$(PARTS) portable unit spank-unit fake benchmarks replay fuzzer,$(eval $(call part,$(p))))

# ---- how to build it -------------------------------------------------------------------------------------------------
$(O)/%.o: %.cc $(O)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(ALLFLAGS) $(INC) -MMD -MP -c -o $@ $<
# The page of `report --html`: our style and script, and a chart library that npm fetches (stepd/cli/fetch_chart.sh).
$(O)/page/chart.js: stepd/cli/fetch_chart.sh
	$(call say,FETCH,$@)
	$(Q)stepd/cli/fetch_chart.sh $(@D)
$(O)/page/report_assets.cc: stepd/cli/embed_page.sh stepd/cli/report_page.css stepd/cli/report_page.js $(O)/page/chart.js
	$(Q)stepd/cli/embed_page.sh kPageStyle=stepd/cli/report_page.css kPageScript=stepd/cli/report_page.js \
	  kChartStyle=$(O)/page/chart.css kChartScript=$(O)/page/chart.js >$@
$(O)/page/%.o: $(O)/page/%.cc $(O)/flags
	$(call say,CXX,$<)
	$(Q)$(CXX) $(ALLFLAGS) -c -o $@ $<
$(PLUGIN) $(UNIT) $(FAKE): INC = -I$(SLURM_HOME)/include
$(TOOL) $(UNIT): INC += $(if $(PMIX_INC),-isystem $(PMIX_INC))
$(UNIT) $(FAKE) $(BENCH): INC += -Itests -DNCCLTUNE_SOURCE_DIR='"$(CURDIR)"'
$(FAKE): INC += -fvisibility=default
# Tests are compiled once and run once: time spent on their code is lost.
$(UNIT) $(FAKE): INC += -O1 -g0
$(O)/tests/fuzz/%.o: INC = -Itests -I$(SLURM_HOME)/include
$(O)/%.cu.o: %.cu $(O)/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O2 $(NVCC_ARCH) -Xcompiler -Wall,-fPIC -Istepd -I$(NCCL_HOME)/include -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

link = $(call say,LINK,$@)
$(plugin.file): $(CORE) $(PLUGIN) spank/plugin/exports.map
	$(link)
	$(Q)$(CXX) -shared $(LINK) -Wl,--version-script=spank/plugin/exports.map -o $@ $(filter %.o,$^) -lyaml-cpp -lpugixml
# The portable tool needs nothing but libc, for images of other distributions: PORTABLE=1 makes it the tool. The plugin stays
# as it is: two C++ runtimes in slurmstepd abort it.
TOOL_LIBS = $(if $(PORTABLE),$(STATIC_LIBS),-lyaml-cpp -lpugixml -lfmt)
$(tool.file): $(CORE) $(TOOL) $(O)/portable.$(if $(PORTABLE),yes,no) $(if $(PORTABLE),$(O)/portable/fmt.o)
	$(link)
	$(Q)$(CXX) -pie $(LINK) -o $@ $(filter %.o,$^) $(TOOL_LIBS) -ldl -lpthread
$(portable.file): $(CORE) $(TOOL) $(O)/portable/fmt.o
	$(link)
	$(Q)$(CXX) -pie $(LINK) -o $@ $(filter %.o,$^) $(STATIC_LIBS) -ldl -lpthread
# Debian has no static fmt: its header's inline functions, all kept, are the same library.
$(O)/portable/fmt.o: $(O)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)echo '#include <fmt/format.h>' | $(CXX) $(ALLFLAGS) -O1 -g0 -DFMT_HEADER_ONLY -fkeep-inline-functions -x c++ -c -o $@ -
# Which of the two the tool was linked as; a change links it anew and compiles nothing.
$(O)/portable.yes $(O)/portable.no:
	@rm -f $(O)/portable.yes $(O)/portable.no; touch $@
$(host-worker.file): $(HOST)
	$(link)
	$(Q)$(CXX) -pie $(LINK) -o $@ $(filter %.o,$^) -lgloo -lpthread
$(nccl-worker.file): $(NCCL)
	$(link)
	$(Q)$(NVCC) $(NVCC_ARCH) -Xlinker=-z,relro,-z,now,-z,noexecstack -o $@ $(filter %.o,$^) -L$(NCCL_HOME)/lib -lnccl -ldl -lpthread
$(unit.file): $(CORE) $(filter $(O)/stepd/worker/common% %/host_address.o %/host_reduce.o,$(HOST)) $(filter-out %/main.o,$(TOOL)) $(filter-out %/entry.o,$(PLUGIN)) $(filter %/spank.o,$(FAKE)) $(UNIT)
	$(link)
	$(Q)$(CXX) $(LINK) -o $@ $(filter %.o,$^) -lgtest -lgmock -lgtest_main -lyaml-cpp -lpugixml -lfmt -ldl -lpthread $(if $(no_hwloc),,-lhwloc)
# Those of spank/ alone, in a third of the time: for coverage, sanitizers and other architectures.
$(spank-unit.file): $(CORE) $(filter-out %/entry.o,$(PLUGIN)) $(filter %/spank.o,$(FAKE)) $(filter $(foreach r,base node policy plugin machine,$(O)/tests/unit/$(r)%),$(UNIT))
	$(link)
	$(Q)$(CXX) $(LINK) -o $@ $(filter %.o,$^) -lgtest -lgmock -lgtest_main -lyaml-cpp -lpugixml -lpthread $(if $(no_hwloc),,-lhwloc)
# The host that loads the built plugin (pin.o: to read masks of any size back); -export-dynamic: the plugin finds spank_* in it as it does in slurmstepd.
$(fake.file): $(filter $(O)/spank/base/%,$(CORE)) $(O)/spank/plugin/pin.o $(FAKE)
	$(link)
	$(Q)$(CXX) $(LINK) -Wl,--export-dynamic -o $@ $(filter %.o,$^) -lgtest -lgmock -lgtest_main -ldl -lpthread
$(benchmarks.file): $(CORE) $(BENCH)
	$(link)
	$(Q)$(CXX) $(LINK) -o $@ $(filter %.o,$^) -lbenchmark -lyaml-cpp -lpugixml -lpthread
$(replay.file): $(FUZZED) $(O)/tests/fuzz/replay.o
	$(link)
	$(Q)$(CXX) $(LINK) -o $@ $(filter %.o,$^) -lyaml-cpp -lpugixml -lfmt
$(fuzzer.file): $(FUZZED) $(O)/tests/fuzz/libfuzzer.o
	$(link)
	$(Q)$(CXX) $(LINK) -fsanitize=fuzzer -o $@ $(filter %.o,$^) -lyaml-cpp -lpugixml -lfmt
-include $(patsubst %.o,%.d,$(FUZZED) $(CORE) $(PLUGIN) $(TOOL) $(HOST) $(NCCL) $(UNIT) $(FAKE) $(BENCH))


# ---- targets for people ----------------------------------------------------------------------------------------------
# Straight after the clone nobody gives -j: what people call then compiles on all CPUs.
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))
.PHONY: deps check chaos check-tune check-built check-vm check-slurm-matrix demo golden fuzz bench coverage lint format install uninstall dist deb rpm clean mutation help
deps: ## install what is missing of the distribution's packages (apt; elsewhere it says what make uses)
	@.ci/deps

check: deps ## all tests, those on a throwaway Slurm too (root); ends with `N passed, N failed`
	@$(MAKE) --no-print-directory $(JOBS) check-built
check-built: all unit fake replay $(if $(portable.why),,portable)
	@tests/check.sh $(O)

VM_DIR ?= /var/tmp/nccl-tune-vm
check-vm: deps ## facts, plan and pins on a real kernel's tables: a guest under qemu, 1.3 GB in VM_DIR (root, Debian 12)
	@$(MAKE) --no-print-directory $(JOBS) plugin tool
	@VM_DIR=$(VM_DIR) tests/vm/vm.sh $(O)

chaos: deps ## kills, stops, cuts off and fills, 200 times over network namespaces: is all of it told? CHAOS='--seed 2' (root)
	@$(MAKE) --no-print-directory $(JOBS) tool host-worker
	@tests/chaos/chaos.sh $(O) --faults 200 $(CHAOS)

demo: deps ## a tuned and measured job on a throwaway Slurm on this host (root)
	@$(MAKE) --no-print-directory $(JOBS) all
	@O=$(O) tests/live/demo.sh

golden: tool ## write tests/golden anew from what the tool prints: review the diff
	@tests/golden/golden.sh --write $(O)/nccl-tune

fuzz: ## libFuzzer on every parser and on the whole plugin, FUZZ_SECONDS each (600); clang with compiler-rt
	@.ci/deps clang-14 libclang-rt-14-dev python3
	@$(MAKE) --no-print-directory tool
	@$(MAKE) --no-print-directory O=$(O)/fuzz CXX=clang++-14 SAN=address,undefined CXXFLAGS='-O1 -g -fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined' fuzzer
	@tests/fuzz/fuzz.sh $(O) $(FUZZ_SECONDS)

coverage: ## which lines of spank/ the tests reach, those of a throwaway Slurm too (root)
	@.ci/deps gcovr
	@$(MAKE) --no-print-directory O=$(O)/coverage CXXFLAGS='-O0 -g --coverage' CPPFLAGS='-include tests/coverage.h' LDFLAGS=--coverage plugin spank-unit fake
	@tests/coverage.sh $(O)/coverage

mutation: $(CORE) $(filter %/machine.o $(O)/tests/unit/policy_%,$(UNIT)) ## disables each rule of the plan in turn: which test sees it?
	@tests/mutation/run.sh $(O)

check-slurm-matrix: ## build and test in roots of Debian 12, 13 and sid, and for aarch64; MATRIX='--quick trixie' (root, debootstrap, a mirror)
	@.ci/deps debootstrap
	@tests/matrix/run.sh $(MATRIX)

check-tune: tool host-worker ## the search finds what is planted in the host worker for 20 of 20 seeds; a minute a seed at most
	@tests/tune/seeds.sh $(O)

bench: ## what reading and planning cost on the largest recorded machine
	@.ci/deps g++ libyaml-cpp-dev libpugixml-dev libbenchmark-dev python3
	@$(MAKE) --no-print-directory benchmarks
	@tests/bench/bench.sh $(O)

SOURCES = $(wildcard spank/*/*.h spank/*/*.cc stepd/*/*.h stepd/*/*.cc stepd/*/*.cu tests/*/*.h tests/*/*.cc)
SCRIPTS = .ci/run .ci/deps $(wildcard stepd/*/*.sh) $(wildcard tests/*.sh tests/*/*.sh etc/*/*/*.sh examples/*.sh examples/*.slurm examples/*/*.sh examples/*/*.slurm)
lint: ## clang-format, shellcheck, clang-tidy
	@.ci/deps clang-format clang-tidy shellcheck
	clang-format --dry-run -Werror $(SOURCES)
	shellcheck -x $(SCRIPTS)
	@echo clang-tidy; printf '%s\n' $(filter %.cc,$(SOURCES)) | xargs -P 2 -I{} clang-tidy --quiet {} -- \
	  $(filter-out -W%,$(ALLFLAGS)) -I$(SLURM_HOME)/include $(addprefix -isystem ,$(PMIX_INC)) -Itests
format: ## clang-format every source file in place
	clang-format -i $(SOURCES)

# The plugin goes among Slurm's own where those lie under prefix, else to $(libdir)/slurm; plugstack.conf has its full path.
slurm_plugins := $(firstword $(dir $(wildcard $(addsuffix /task_affinity.so,$(addprefix $(SLURM_HOME)/,lib64/slurm lib/slurm lib/*/slurm-wlm)))))
plugindir     ?= $(patsubst %/,%,$(or $(filter $(prefix)/lib%,$(slurm_plugins)),$(libdir)/slurm))
plugstackdir  ?= $(sysconfdir)/slurm/plugstack.conf.d
built          = $(if $($(1).why),,$($(1).file))
# FILE:FOLDER of all that is installed, and what is the administrator's from then on: such a file stays when it is there.
INSTALLED = $(addsuffix :$(plugindir),$(call built,plugin)) $(addsuffix :$(bindir),$(call built,tool)) \
  $(addsuffix :$(libexecdir)/nccl-tune,$(call built,host-worker) $(call built,nccl-worker)) \
  $(addsuffix :$(plugstackdir),$(CONFS)) $(addsuffix :$(docdir),README.md CHANGELOG.md LICENSE) \
  $(foreach e,$(wildcard examples/*.md examples/*.slurm examples/*/*.* examples/*/Containerfile),$(e):$(docdir)/$(patsubst %/,%,$(dir $(e)))) \
  $(foreach m,$(wildcard etc/man/*),$(m):$(prefix)/share/man/man$(subst .,,$(suffix $(m)))) \
  $(foreach s,$(wildcard etc/*.schema.json),$(s):$(prefix)/share/nccl-tune) \
  etc/bash_completion.d/nccl-tune:$(prefix)/share/bash-completion/completions \
  $(if $(ENROOT),$(O)/60-nccl-tune.sh:$(ENROOT)/hooks.d)
# enroot's configuration folder, for our hook: where this machine has it, or as told (ENROOT=/etc/enroot for a package, ENROOT= for none).
ENROOT ?= $(wildcard $(sysconfdir)/enroot)
SITE  = etc/nccl-tune.yaml:$(sysconfdir) etc/expected.yaml:$(sysconfdir)/nccl-tune etc/tune-space.yaml:$(sysconfdir)/nccl-tune
# Where pyxis is used the plugin is loaded twice, and Slurm loads no path twice: hence a link for the second time.
INSIDE = $(if $(plugin.why),,$(DESTDIR)$(plugindir)/nccl_tune_inside.so)
# What the plugin was built for, such as 24.11: Slurm loads no plugin of another series, and says so on the nodes alone.
slurm_series = $(shell n=$$(sed -n 's/^.define SLURM_VERSION_NUMBER *//p' $(SLURM_HOME)/include/slurm/slurm_version.h); printf '%d.%02d' $$((n >> 16)) $$((n >> 8 & 255)))
CONFS = $(patsubst etc/plugstack.conf.d/%,$(O)/%,$(wildcard etc/plugstack.conf.d/*.conf))
$(CONFS): $(O)/%.conf: etc/plugstack.conf.d/%.conf $(O)/flags
	$(Q)sed 's|^\([a-z]*\) \([a-z_]*\.so\)|\1 $(plugindir)/\2|' $< >$@
$(O)/60-nccl-tune.sh: etc/enroot/hooks.d/60-nccl-tune.sh $(O)/flags
	$(Q)sed $(foreach v,bindir libexecdir sysconfdir,-e 's|^$(v)=.*|$(v)=$($(v))|') $< >$@; chmod 755 $@
install: all $(CONFS) $(if $(ENROOT),$(O)/60-nccl-tune.sh) ## what was built, to DESTDIR and prefix
	@set -e; put() { m=644; test ! -x $$1 || m=755; install -D -m $$m $$1 $$2; echo "  $$2"; }; \
	for f in $(INSTALLED); do to=$(DESTDIR)$${f#*:}; f=$${f%%:*}; put $$f $$to/$${f##*/}; done; \
	for f in $(SITE); do to=$(DESTDIR)$${f#*:}; f=$${f%%:*}; test -e $$to/$${f##*/} || put $$f $$to/$${f##*/}; done; \
	$(if $(DESTDIR)$(plugin.why),,here=$$({ slurmd -V || srun -V; } 2>/dev/null | grep -oE '[0-9]+\.[0-9]+' | head -n 1); \
	test "$${here:-$(slurm_series)}" = $(slurm_series) || \
	echo "nccl_tune.so: built for Slurm $(slurm_series), and the Slurm here is $$here, which refuses it; set SLURM_HOME to the one that runs" >&2;) \
	$(if $(INSIDE),ln -sf nccl_tune.so $(INSIDE); echo "  $(INSIDE)";) \
	echo 'plugstack.conf needs the line: include $(plugstackdir)/*.conf'
uninstall: ## what install put there, but not a policy that was changed
	@for f in $(INSTALLED); do to=$(DESTDIR)$${f#*:}; f=$${f%%:*}; rm -f $$to/$${f##*/}; done; rm -f $(INSIDE); \
	for f in $(SITE); do to=$(DESTDIR)$${f#*:}; f=$${f%%:*}; if cmp -s $$f $$to/$${f##*/}; then rm $$to/$${f##*/}; fi; done; \
	rmdir $(addprefix $(DESTDIR),$(docdir)/examples/* $(docdir)/examples $(docdir) $(libexecdir)/nccl-tune $(prefix)/share/nccl-tune $(sysconfdir)/nccl-tune) 2>/dev/null || :

DIST = nccl-tune-$(VERSION)
dist: ## a tarball of the commit; twice the same bytes
	@mkdir -p $(O)
	git archive --format=tar --prefix=$(DIST)/ HEAD | gzip -9n >$(O)/$(DIST).tar.gz
# Both from the commit, as `make dist` packs it. DEB_BUILD_OPTIONS and RPMBUILD_ARGS go through.
deb: dist ## Debian packages, in $(O)/deb (dpkg-buildpackage)
	rm -rf $(O)/deb && mkdir -p $(O)/deb && tar -xzf $(O)/$(DIST).tar.gz -C $(O)/deb
	cp $(O)/$(DIST).tar.gz $(O)/deb/nccl-tune_$(VERSION).orig.tar.gz
	cp -r $(O)/deb/$(DIST)/etc/packaging/deb $(O)/deb/$(DIST)/debian
	cd $(O)/deb/$(DIST) && dpkg-buildpackage -us -uc $(DEB_ARGS)
	@ls $(O)/deb/*.deb
rpm: dist ## RPM packages, in $(O)/rpm (rpmbuild)
	rm -rf $(O)/rpm && mkdir -p $(O)/rpm/SOURCES && cp $(O)/$(DIST).tar.gz $(O)/rpm/SOURCES/
	rpmbuild -ba --define '_topdir $(abspath $(O))/rpm' $(RPMBUILD_ARGS) etc/packaging/rpm/nccl-tune.spec
	@ls $(O)/rpm/RPMS/*/*.rpm
clean: ## remove $(O)
	rm -rf $(O)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | awk -F'\t' '{ printf "  make %-10s %s\n", $$1, $$2 }'
	@echo '  parts, by name: $(PARTS) portable unit fake benchmarks'
	@echo '  variables (now):'
	@$(foreach v,O prefix DESTDIR libdir libexecdir sysconfdir plugindir ENROOT PORTABLE VM_DIR SLURM_HOME PMIX_HOME CUDA_HOME NCCL_HOME NVCC_ARCH CXX \
	  CXXFLAGS CPPFLAGS LDFLAGS SAN CI V,printf '    %-11s %s\n' $(v) '$($(v))';)
