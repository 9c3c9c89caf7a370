// SPDX-License-Identifier: Apache-2.0
// The report's file beside what is there already: nothing is lost, nothing is written twice.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/sink.h"
#include "unit/temporary.h"

namespace nccltune::bench {
namespace {

namespace fs = std::filesystem;

class JobOutput : public testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "nccl_test_7.out", "the batch script's\n");
    write_file(folder_ / "other.out", "");
  }

  // A process in a folder that looks like /proc.
  void process(int pid, const std::string& command, const std::string& job, const char* output,
               const std::string& arguments = "") {
    const fs::path folder = folder_ / "proc" / std::to_string(pid);
    fs::create_directories(folder / "fd");
    write_file(folder / "comm", command + "\n");
    write_file(folder / "cmdline", command + '\0' + arguments + '\0');
    write_file(folder / "environ", "HOME=/root" + std::string(1, '\0') + "SLURM_JOB_ID=" + job + std::string(1, '\0') +
                                       "A=b" + std::string(1, '\0'));
    fs::remove(folder / "fd/1");
    fs::create_symlink(folder_ / output, folder / "fd/1");
  }
  bool found() { return is_output_of_srun(folder_ / "nccl_test_7.out", "7", folder_ / "proc"); }

  const TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
};

TEST_F(JobOutput, IsKnownByTheSrunThatWritesToIt) {
  fs::create_directories(folder_ / "proc/net");
  EXPECT_FALSE(found());
  process(10, "bash", "7", "nccl_test_7.out");
  EXPECT_FALSE(found()) << "a script's own output may not be that of its srun";
  process(11, "srun", "7", "nccl_test_7.out");
  EXPECT_TRUE(found());
  process(12, "srun", "7", "nccl_test_7.out");  // srun has a child of the same name
  EXPECT_TRUE(found());
}

TEST_F(JobOutput, OneSrunThatGoesElsewhereMakesItUncertain) {
  process(11, "srun", "7", "nccl_test_7.out");
  process(12, "srun", "7", "other.out");
  EXPECT_FALSE(found());
}

TEST_F(JobOutput, SrunWithAnOutputOfItsOwnMakesItUncertain) {
  process(11, "srun", "7", "nccl_test_7.out", "--output=elsewhere");
  EXPECT_FALSE(found());
  process(11, "srun", "7", "nccl_test_7.out", "-oelsewhere");
  EXPECT_FALSE(found());
  process(11, "srun", "7", "nccl_test_7.out", "--mpi=pmix");
  EXPECT_TRUE(found());
}

TEST_F(JobOutput, SrunOfAnotherJobDoesNotCount) {
  process(11, "srun", "77", "nccl_test_7.out");
  EXPECT_FALSE(found());
  process(12, "srun", "7", "nccl_test_7.out");
  process(13, "srun", "8", "other.out");
  EXPECT_TRUE(found());
}

TEST_F(JobOutput, WithoutAFileThereIsNothingToBeWrittenTo) {
  process(11, "srun", "7", "nccl_test_7.out");
  fs::remove(folder_ / "nccl_test_7.out");
  EXPECT_FALSE(found());
}

}  // namespace
}  // namespace nccltune::bench
