// SPDX-License-Identifier: Apache-2.0
#include "node/dump.h"

#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/output.h"

namespace nccltune::cli {

int dump(int argc, char** argv) {
  CLI::App app("this node's facts as one file that --root reads back; names, UUIDs, GUIDs and addresses are replaced",
               "nccl-tune dump");
  FactsOptions options;
  std::string file = "-";
  app.add_option("FILE", file, "a new file; standard output for - or without it");
  add_root_option(app, options);
  add_policy_options(app, options);
  app.footer(
      "Examples:\n"
      "  nccl-tune dump node17.dump\n"
      "  nccl-tune plan --root node17.dump        what this node would be given");
  if (auto status = parse(app, argc, argv)) return *status;

  auto source = open_source(options);
  if (!source) {
    say(source.error());
    return exit_usage;
  }
  auto text = write_dump(source->root, source->read);
  if (!text) {
    say(text.error());
    return exit_usage;
  }
  if (file == "-") return finish(*text);
  if (auto error = write_new_file(file, *text)) {
    say(*error);
    return exit_usage;
  }
  return exit_ok;
}

}  // namespace nccltune::cli
