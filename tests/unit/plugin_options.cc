// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plugin/options.h"

namespace nccltune {
namespace {

using Action = Options::Action;

Options options_of(const char* argument) {
  const ParsedOptions parsed = parse_options(argument);
  EXPECT_FALSE(parsed.error) << parsed.error->text();
  return parsed.options;
}

Arguments arguments_of(std::vector<std::string> words, std::vector<std::string>* errors = nullptr) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const ParsedArguments parsed = parse_arguments(argv.size(), argv.data());
  if (errors != nullptr)
    for (const Error& error : parsed.errors) errors->push_back(error.text());
  else
    EXPECT_TRUE(parsed.errors.empty());
  return parsed.arguments;
}

TEST(Options, EveryFormOfTheBareOptionIsOn) {
  for (const char* form : {static_cast<const char*>(nullptr), "", "(null)", "on"})
    EXPECT_EQ(options_of(form), Options{}) << (form ? form : "NULL");
}

TEST(Options, TheLastActionWins) {
  EXPECT_EQ(options_of("off").action, Action::off);
  EXPECT_EQ(options_of("off,on").action, Action::on);
  EXPECT_EQ(options_of("on,show").action, Action::show);
  EXPECT_EQ(options_of("env,bind").action, Action::bind);
  EXPECT_EQ(options_of("bind,env").action, Action::env);
}

TEST(Options, ActionsSayWhatIsDone) {
  EXPECT_TRUE(options_of("on").exports() && options_of("on").pins());
  EXPECT_TRUE(options_of("env").exports() && !options_of("env").pins());
  EXPECT_TRUE(!options_of("bind").exports() && options_of("bind").pins());
  EXPECT_FALSE(options_of("show").exports() || options_of("show").pins());
  EXPECT_FALSE(options_of("off").exports() || options_of("off").pins());
}

TEST(Options, KeysAddUp) {
  const Options options = options_of("strict,verbose,sharp,torch,profile=a,profile=azure-ndv4_1.0");
  EXPECT_EQ(options.action, Action::on);
  EXPECT_TRUE(options.strict && options.verbose && options.sharp && options.torch);
  EXPECT_EQ(options.profile, "azure-ndv4_1.0");
}

TEST(Options, TheVariablesValueIsMarked) {
  EXPECT_EQ(options_of("from-NCCLTUNE"), Options{});
  EXPECT_EQ(options_of("from-NCCLTUNE,"), Options{});
  EXPECT_EQ(options_of("from-NCCLTUNE,off,verbose"), options_of("off,verbose"));
  EXPECT_EQ(parse_options("from-NCCLTUNE,x").error->object, "NCCLTUNE");
  EXPECT_TRUE(parse_options("from-NCCLTUNE2").error);
  EXPECT_TRUE(parse_options("on,from-NCCLTUNE").error);
  EXPECT_TRUE(parse_options("from-NCCLTUNE,from-NCCLTUNE").error);
  EXPECT_TRUE(is_from_variable("from-NCCLTUNE") && is_from_variable("from-NCCLTUNE,on"));
  EXPECT_FALSE(is_from_variable(nullptr) || is_from_variable("on") || is_from_variable("from-NCCLTUNE2"));
}

TEST(Options, CommasTooManyAskForNothing) { EXPECT_EQ(options_of(",on,,verbose,"), options_of("on,verbose")); }

TEST(Options, AnUnknownKeyListsTheKnownOnes) {
  const ParsedOptions parsed = parse_options("verbose,fast,bind");
  ASSERT_TRUE(parsed.error);
  EXPECT_EQ(
      parsed.error->text(),
      "--nccl-tune: unknown key 'fast'; known: on, off, show, env, bind, strict, verbose, profile=NAME, sharp, torch");
  EXPECT_TRUE(parsed.options.verbose);
  EXPECT_EQ(parsed.options.action, Action::bind);
}

TEST(Options, CaseAndBlanksAreNotForgiven) {
  for (const char* form :
       {"ON", " on", "on ", "off=1", "strict=", "profile", "profile=", "=", "profile=a b", "profile=../x"})
    EXPECT_TRUE(parse_options(form).error) << form;
}

TEST(Options, ALongArgumentIsRefusedWhole) {
  const ParsedOptions parsed = parse_options(std::string(1025, ',').c_str());
  ASSERT_TRUE(parsed.error);
  EXPECT_EQ(parsed.error->text(), "--nccl-tune: the argument is longer than 1024 bytes");
  EXPECT_EQ(parsed.options, Options{});
  EXPECT_FALSE(parse_options(std::string(1024, ',').c_str()).error);
  EXPECT_TRUE(parse_options(("profile=" + std::string(65, 'a')).c_str()).error);
  EXPECT_FALSE(parse_options(("profile=" + std::string(64, 'a')).c_str()).error);
}

TEST(Options, AMessageRepeatsABadKeyOnOneLineAndCut) {
  const std::string text = parse_options(("a\n\x1b[1m\x7f" + std::string(500, 'x')).c_str()).error->text();
  EXPECT_EQ(text.find_first_of("\n\x1b\x7f"), std::string::npos) << text;
  EXPECT_LT(text.size(), 250u);
  EXPECT_NE(text.find("x...'"), std::string::npos) << text;
}

TEST(Arguments, AllOfThem) {
  const Arguments arguments = arguments_of({"default=on", "policy=/etc/p.yaml", "gpu_order=minor", "root=/srv/m"});
  EXPECT_TRUE(arguments.on_by_default);
  EXPECT_EQ(arguments.policy, "/etc/p.yaml");
  EXPECT_EQ(arguments.gpu_order, GpuOrder::minor);
  EXPECT_EQ(arguments.root, "/srv/m");
}

TEST(Arguments, NoneMeansOffAndTheLiveMachine) {
  const ParsedArguments parsed = parse_arguments(0, nullptr);
  EXPECT_TRUE(parsed.errors.empty());
  EXPECT_FALSE(parsed.arguments.on_by_default);
  EXPECT_EQ(parsed.arguments.policy + parsed.arguments.root, "");
  EXPECT_EQ(parsed.arguments.gpu_order, GpuOrder::pci);
}

TEST(Arguments, TheLastOneWins) { EXPECT_FALSE(arguments_of({"default=on", "default=off"}).on_by_default); }

TEST(Arguments, BadOnesAreNamedAndTheRestCounts) {
  std::vector<std::string> errors;
  const Arguments arguments =
      arguments_of({"default=yes", "gpu_order=nvml", "policy=etc/p", "root=", "fast", "default=on"}, &errors);
  EXPECT_TRUE(arguments.on_by_default);
  EXPECT_EQ(arguments.policy + arguments.root, "");
  ASSERT_EQ(errors.size(), 5u);
  EXPECT_EQ(errors[0],
            "plugstack.conf: unknown argument 'default=yes'; known: default=on|off, policy=FILE, "
            "gpu_order=pci|minor, root=DIR");
  EXPECT_EQ(errors[2], "plugstack.conf: 'policy=etc/p' is not an absolute path");
}

}  // namespace
}  // namespace nccltune
