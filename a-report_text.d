report_text.o: stepd/cli/report_text.cc stepd/cli/report_text.h \
 stepd/cli/report_run.h stepd/cli/table.h spank/base/text.h \
 stepd/cli/html.h stepd/cli/output.h spank/base/result.h
stepd/cli/report_text.h:
stepd/cli/report_run.h:
stepd/cli/table.h:
spank/base/text.h:
stepd/cli/html.h:
stepd/cli/output.h:
spank/base/result.h:
