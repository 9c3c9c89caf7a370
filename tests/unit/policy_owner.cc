// SPDX-License-Identifier: Apache-2.0
// Whose policy counts: slurmstepd reads it with the job's effective uid and root's real one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "machines/machine.h"
#include "policy/policy.h"

namespace nccltune {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kUser = 12345;

class PolicyOwner : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "files of several users need root";
    for (std::string at = folder; at.size() > 1; at = at.substr(0, at.rfind('/')))
      if (struct stat info{}; stat(at.c_str(), &info) == 0 && (info.st_mode & 0777) == 0700) chmod(at.c_str(), 0755);
  }
  std::string write(const std::string& name, uid_t owner) const {
    const std::string path = folder + "/" + name;
    std::ofstream(path) << "mode: on\n";
    EXPECT_EQ(chmod(path.c_str(), 0644), 0);
    EXPECT_EQ(chown(path.c_str(), owner, owner), 0);
    return path;
  }
  // What load_policy says in a process with these uids; "" for a policy.
  static std::string error_as(uid_t real, uid_t effective, const std::string& path, const std::string& drop_in) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      std::string text = "setresuid failed";
      if (setresuid(real, effective, 0) == 0) {
        const Result<Policy> policy = load_policy(path, drop_in);
        text = !policy ? policy.error().text() : policy->left_out.empty() ? "" : policy->left_out.front().text();
      }
      const ssize_t written = ::write(ends[1], text.data(), text.size());
      _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    close(ends[1]);
    char buffer[1024];
    std::string text;
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, n);
    close(ends[0]);
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    return text;
  }

  const std::string folder = testing::temporary_folder();
};

TEST_F(PolicyOwner, AUserOfTheToolMayHaveOneOfHisOwn) {
  EXPECT_EQ(error_as(kUser, kUser, write("own.yaml", kUser), ""), "");
  EXPECT_EQ(error_as(kUser, kUser, write("site.yaml", 0), ""), "");
  EXPECT_THAT(error_as(kUser, kUser, write("other.yaml", kUser + 1), ""), HasSubstr("it must belong to root"));
}

TEST_F(PolicyOwner, InSlurmstepdOnlyRootsCounts) {
  EXPECT_EQ(error_as(0, kUser, write("site.yaml", 0), ""), "");
  EXPECT_THAT(error_as(0, kUser, write("own.yaml", kUser), ""), HasSubstr("it must belong to root"));
}

TEST_F(PolicyOwner, ADropInFolderIsHeldToTheSame) {
  const std::string file = write("site.yaml", 0), drop_in = folder + "/site.d";
  ASSERT_EQ(mkdir(drop_in.c_str(), 0755), 0);
  write("site.d/a.yaml", 0);
  EXPECT_EQ(error_as(0, 0, file, drop_in), "");
  // Even with the sticky bit: a hard link to a file of root's would look like root's word.
  ASSERT_EQ(chmod(drop_in.c_str(), 01777), 0);
  EXPECT_THAT(error_as(0, 0, file, drop_in), HasSubstr(drop_in + ": others than its owner may write it"));
  ASSERT_EQ(chmod(drop_in.c_str(), 0755), 0);
  ASSERT_EQ(chown(drop_in.c_str(), kUser, kUser), 0);
  EXPECT_THAT(error_as(0, kUser, file, drop_in), HasSubstr(drop_in + ": owned by user 12345; it must belong to root"));
}

}  // namespace
}  // namespace nccltune
