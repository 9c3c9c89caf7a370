settings.o: stepd/cli/settings.cc stepd/cli/settings.h stepd/cli/facts.h \
 spank/base/result.h spank/base/root.h spank/base/file_tree.h \
 spank/node/node.h spank/base/cpuset.h spank/node/read.h \
 spank/policy/policy.h spank/policy/step.h spank/policy/plan.h \
 spank/base/text.h stepd/cli/live_step.h
stepd/cli/settings.h:
stepd/cli/facts.h:
spank/base/result.h:
spank/base/root.h:
spank/base/file_tree.h:
spank/node/node.h:
spank/base/cpuset.h:
spank/node/read.h:
spank/policy/policy.h:
spank/policy/step.h:
spank/policy/plan.h:
spank/base/text.h:
stepd/cli/live_step.h:
