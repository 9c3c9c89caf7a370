// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/check_formats.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/topo_matrix.h"

namespace nccltune::cli {
namespace {

TEST(CliTable, AlignsColumnsAndLeavesNoBlanksAtTheEnd) {
  Table table({"HCA", "use", "why"});
  table.add({"mlx5_0:1", "compute", "beside GPU0"});
  table.add({"mlx5_bond_0:1", "", "x"});
  EXPECT_EQ(table.text(Style{}),
            "  HCA            use      why\n"
            "  mlx5_0:1       compute  beside GPU0\n"
            "  mlx5_bond_0:1  -        x\n");
}

TEST(CliTable, WrapsTheLastColumnBehindItsOwnEdge) {
  Table table({"a", "why"});
  std::string why;
  for (int i = 0; i < 40; ++i) why += "word ";
  table.add({"b", why});
  std::istringstream lines(table.text(Style{}));
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), kWidth);
    if (++count <= 2) continue;
    EXPECT_EQ(line.find_first_not_of(' '), 5u) << line;
  }
  EXPECT_EQ(count, 4);
}

TEST(CliTable, WrapsAColumnOfItsOwnWidth) {
  Table table({"task", {"GPUs", 12}, "CPUs"});
  table.add({"0", "0000:07:00.0 0000:0a:00.0", "0-3"});
  EXPECT_EQ(table.text(Style{}),
            "  task  GPUs          CPUs\n"
            "  0     0000:07:00.0  0-3\n"
            "        0000:0a:00.0\n");
}

TEST(CliTable, PutsALastColumnWithoutRoomOnItsOwnLine) {
  Table table({"name", "why"});
  table.add({std::string(90, 'n'), "because"});
  EXPECT_EQ(table.text(Style{}), "  name\n      why\n  " + std::string(90, 'n') + "\n      because\n");
}

TEST(CliTable, ColoursTheTextAndNotTheBlanks) {
  Table table({"a", "b"});
  table.add({{"x", Tone::good}, "y"});
  EXPECT_EQ(table.text(Style{.colour = true}), "  \033[1ma\033[0m  \033[1mb\033[0m\n  \033[32mx\033[0m  y\n");
}

TEST(CliWrap, BreaksAtBlanksThenBehindCommas) {
  EXPECT_EQ(wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("=mlx5_0:1,mlx5_1:1,mlx5_2:1", 12), (std::vector<std::string>{"=mlx5_0:1,", "mlx5_1:1,", "mlx5_2:1"}));
  EXPECT_EQ(wrap("unbreakable", 4), (std::vector<std::string>{"unbreakable"}));
  EXPECT_EQ(wrap("", 4), (std::vector<std::string>{""}));
}

TEST(CliWrap, CountsCodePointsNotBytes) { EXPECT_EQ(columns_of("µs → x"), 6u); }

TEST(CliOutput, MakesControlBytesVisible) {
  EXPECT_EQ(printable("a\nb\033[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(printable("mlx5_0 é"), "mlx5_0 é");
}

// Names come out of a dump that anybody may have written.
TEST(CliOutput, NamesOfAMachineSteerNoTerminal) {
  EXPECT_EQ(Table({"a\033[2J", "b"}).text(Style{}), "  a\\x1b[2J  b\n");
  EXPECT_EQ(findings_nhc("n1\033[2J", {}), "nccl-tune:  n1\\x1b[2J:  0 ok, 0 warn, 0 fail, 0 skip\n");

  Node node;
  node.gpus.push_back({.bdf = "0000:3a:00.0"});
  for (int i = 0; i < 30; ++i) node.rdma.push_back({.name = "mlx5_\033[2J", .bdf = "0000:3b:00.0"});
  const std::string matrix = matrix_text(node, Style{});
  EXPECT_THAT(matrix, testing::HasSubstr("NIC29=mlx5_\\x1b[2J"));
  EXPECT_THAT(matrix, testing::Not(testing::HasSubstr("\033")));
}

TEST(CliOutput, LabelsOfPrometheusEscapeWhatItsFormatKnowsAndNothingElse) {
  EXPECT_THAT(findings_prometheus({{.id = "rdma.rate", .status = check::Status::fail, .object = "a\"b\\c\nd\033"}}),
              testing::HasSubstr(R"(nccl_tune_finding{check="rdma.rate",object="a\"b\\c\nd\\x1b"} 2)"));
}

}  // namespace
}  // namespace nccltune::cli
