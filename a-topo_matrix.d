topo_matrix.o: stepd/cli/topo_matrix.cc stepd/cli/topo_matrix.h \
 stepd/cli/table.h spank/node/node.h spank/base/cpuset.h \
 spank/node/distance.h
stepd/cli/topo_matrix.h:
stepd/cli/table.h:
spank/node/node.h:
spank/base/cpuset.h:
spank/node/distance.h:
