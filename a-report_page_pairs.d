report_page_pairs.o: stepd/cli/report_page_pairs.cc \
 stepd/cli/report_page_pairs.h stepd/cli/html.h stepd/cli/json_field.h
stepd/cli/report_page_pairs.h:
stepd/cli/html.h:
stepd/cli/json_field.h:
