report_nccl_tests.o: stepd/cli/report_nccl_tests.cc spank/base/text.h \
 stepd/cli/report_run.h
spank/base/text.h:
stepd/cli/report_run.h:
