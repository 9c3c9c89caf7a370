// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "base/root.h"
#include "machines/machine.h"
#include "node/read.h"

namespace nccltune {
namespace {

namespace fs = std::filesystem;

class RootTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(top + path).parent_path());
    std::ofstream(top + path) << content;
  }
  void link(const std::string& path, const std::string& target) {
    fs::create_directories(fs::path(top + path).parent_path());
    fs::create_symlink(target, top + path);
  }
  Root root() { return *Root::open(top); }

  const std::string top = testing::temporary_folder();
};

void expect_links_stay_inside(const Root& root) {
  EXPECT_EQ(root.read_line("/sys/inside"), "inner");
  EXPECT_EQ(root.read_line("/sys/absolute"), "inner");
  EXPECT_EQ(root.read_line("/sys/climbing"), std::nullopt);
  EXPECT_EQ(root.read_line("/sys/up/etc/secret"), "inner");
  EXPECT_EQ(root.read_line("/sys/loop"), std::nullopt);
  EXPECT_EQ(root.read_lines("/sys", {"inside", "loop", "etc", "none", "folder/value"}),
            (std::vector<std::optional<std::string>>{"inner", std::nullopt, std::nullopt, std::nullopt, "deep"}));
  EXPECT_EQ(root.resolve("/sys/absolute"), "/etc/secret");
  EXPECT_EQ(root.link("/sys/absolute"), "/etc/secret");
  EXPECT_TRUE(root.is_directory("/sys/up"));
  EXPECT_FALSE(root.exists("/sys/dangling"));
}

TEST_F(RootTest, LinksAreFollowedInsideTheRootOnly) {
  write("/etc/secret", "inner\n");
  write("/sys/folder/value", "deep\n");
  link("/sys/inside", "../etc/secret");
  link("/sys/absolute", "/etc/secret");
  link("/sys/climbing", "../../../../../../../../etc/hostname");
  link("/sys/up", "../..");
  link("/sys/loop", "loop");
  link("/sys/dangling", "nowhere");
  expect_links_stay_inside(root());

  // The same without openat2, as before Linux 5.6 or under an old seccomp filter: a child whose kernel lacks it.
  const pid_t child = ::fork();
  if (child == 0) {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog program{sizeof filter / sizeof *filter, filter};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      ::_exit(3);
    expect_links_stay_inside(root());
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << "no seccomp filters here, as under qemu-user";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "without openat2: status " << status;
}

TEST_F(RootTest, OnlyRegularFilesAreReadAndOneMebibyteOfThem) {
  write("/sys/huge", std::string(3 << 20, 'x'));
  ASSERT_EQ(::mkfifo((top + "/sys/fifo").c_str(), 0600), 0);
  const Root r = root();
  EXPECT_EQ(r.read("/sys/huge")->size(), size_t{1} << 20);
  EXPECT_EQ(r.read_head("/sys/huge", 10)->size(), 10u);
  EXPECT_EQ(r.read("/sys/fifo"), std::nullopt);
  EXPECT_EQ(r.read("/sys"), std::nullopt);
  EXPECT_EQ(r.read("relative"), std::nullopt);
  EXPECT_TRUE(r.list("/sys/huge").empty());
}

// Every place of the tree that the reader knows, filled with what no kernel writes.
TEST_F(RootTest, AHostileTreeIsReadWithoutHarm) {
  const std::string junk("\x00\xff-1,:::999999999999999999999\n\n\x01", 30), table(2 << 20, ':');
  for (const char* path :
       {"/sys/devices/system/node/node0/cpulist", "/sys/devices/system/node/node0/meminfo",
        "/sys/devices/system/cpu/online", "/sys/bus/pci/devices/0000:3b:00.0/class",
        "/sys/bus/pci/devices/0000:3b:00.0/numa_node", "/proc/driver/nvidia/gpus/0000:3b:00.0/information",
        "/proc/driver/nvidia/version", "/sys/class/infiniband/mlx5_0/ports/1/state",
        "/sys/class/infiniband/mlx5_0/ports/1/rate", "/sys/class/infiniband/mlx5_0/ports/1/gids/0",
        "/sys/class/infiniband/mlx5_0/ports/99999999999/state", "/sys/class/net/eth0/flags",
        "/sys/class/net/eth0/ifindex", "/etc/nccl.conf", "/proc/cpuinfo", "/topo.xml"})
    write(path, junk);
  for (const char* path : {"/proc/net/route", "/proc/net/fib_trie", "/proc/net/if_inet6", "/proc/net/ipv6_route"})
    write(path, table);
  link("/sys/bus/pci/devices/0000:3c:00.0", "0000:3c:00.0");
  link("/sys/class/net/eth1", "../../../../../../..");
  std::string deep = "/deep";
  for (int i = 0; i < 500; ++i) deep += "/d";
  link("/sys/class/net/eth2", deep);
  ASSERT_EQ(::mkfifo((top + "/sys/class/net/eth0/mtu").c_str(), 0600), 0);
  ReadOptions options;
  options.topology_files = {"/topo.xml", "/sys"};
  options.probe = {"/*/*/*/*", "/none/[", ""};
  const Node node = read_node(root(), options);
  ASSERT_NE(node.find_pci("0000:3b:00.0"), nullptr);
  EXPECT_FALSE(node.find_pci("0000:3b:00.0")->numa_node);
  EXPECT_TRUE(node.topology_files.empty());
  EXPECT_TRUE(node.routes.empty());
  ASSERT_NE(node.find_rdma("mlx5_0"), nullptr);
  EXPECT_TRUE(node.find_rdma("mlx5_0")->ports[0].gids.empty());
}

TEST_F(RootTest, AnEmptyRootGivesAnEmptyNode) {
  const Node node = read_node(root(), {});
  EXPECT_TRUE(node.gpus.empty() && node.rdma.empty() && node.net.empty() && node.online_cpus.empty());
  EXPECT_FALSE(node.notes.empty());
}

TEST(Root, SaysWhatIsWrongWithWhatItCannotOpen) {
  const auto missing = Root::open("/nonexistent/machine");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().text(),
            "/nonexistent/machine: cannot open the recorded machine: No such file or directory");
  const std::string file = testing::temporary_folder() + "/dump";
  std::ofstream(file) << "nccl-tune dump 1\nf\t/a\tb\nq\t/c\n";
  EXPECT_EQ(Root::open(file).error().object, file + ":3");
  std::ofstream(file) << "hello\n";
  EXPECT_EQ(Root::open(file).error().what, "not a file that nccl-tune dump wrote");
}

TEST(FileTree, TextRoundTrips) {
  FileTree tree;
  tree.add("/sys/a.b", FileTree::Kind::file, "x\ty\\\n\x01\xff");
  tree.add("/sys/a/c", FileTree::Kind::name);
  tree.add("/sys/l", FileTree::Kind::link, "../sys/a");
  tree.add("/empty", FileTree::Kind::directory);
  const auto again = FileTree::parse(tree.text(), "dump");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->text(), tree.text());
  EXPECT_EQ(again->find("/sys/a.b")->content, "x\ty\\\n\x01\xff");
  EXPECT_EQ(again->names("/sys"), (std::vector<std::string>{"a", "a.b", "l"}));
  EXPECT_EQ(again->names("/"), (std::vector<std::string>{"empty", "sys"}));
  for (const char* bad : {"f\trelative\tx", "f\t/a/../b\tx", "f\t/a", "d\t/a\tx", "f\t/a\t\\q", "f\t/a\t\\x0"})
    EXPECT_FALSE(FileTree::parse("nccl-tune dump 1\n" + std::string(bad) + "\n", "dump")) << bad;
}

// A job's NCCL_CONF_FILE is the user's to spell: what is not below /sys is no attribute, and must be a regular file.
TEST(LiveRoot, AFifoSpeltAsAnAttributeIsNotRead) {
  const std::string fifo = testing::temporary_folder() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int fd = ::open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::write(fd, "NCCL_X=1\n", 9), 9);
  EXPECT_EQ(Root().read(fifo), std::nullopt);
  EXPECT_EQ(Root().read("/sys/.." + fifo), std::nullopt);
  EXPECT_EQ(Root().read_lines("/sys/.." + fifo.substr(0, fifo.rfind('/')), {"fifo"}),
            std::vector<std::optional<std::string>>{std::nullopt});
  ::close(fd);
}

}  // namespace
}  // namespace nccltune
