report_page.o: stepd/cli/report_page.cc stepd/cli/report_page.h \
 stepd/cli/html.h stepd/cli/json_field.h stepd/cli/report_page_node.h \
 stepd/cli/report_page_pairs.h stepd/cli/report_text.h \
 stepd/cli/report_run.h stepd/cli/table.h
stepd/cli/report_page.h:
stepd/cli/html.h:
stepd/cli/json_field.h:
stepd/cli/report_page_node.h:
stepd/cli/report_page_pairs.h:
stepd/cli/report_text.h:
stepd/cli/report_run.h:
stepd/cli/table.h:
