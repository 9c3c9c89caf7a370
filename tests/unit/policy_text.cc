// SPDX-License-Identifier: Apache-2.0
// The policy file: what is refused and with which words, and what its hints do.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "machines/machine.h"
#include "policy/policy.h"
#include "unit/node_builder.h"
#include "unit/policy_shipped.h"

namespace nccltune {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT(google-build-using-namespace): the builder

std::string error_of(const std::string& text) {
  const Result<Policy> policy = parse_policy(text, "p.yaml");
  return policy ? "" : policy.error().text();
}

TEST(PolicyText, UnknownKeysNameTheNearest) {
  EXPECT_EQ(error_of("mode: on\nexclud_hcas: [a]\n"),
            "p.yaml:2:1: unknown key 'exclud_hcas'; did you mean 'exclude_hcas'?");
  EXPECT_EQ(error_of("profiles:\n  - name: a\n    when: {gpus: x}\n"),
            "p.yaml:3:12: unknown key 'gpus'; did you mean 'gpu'?");
  EXPECT_THAT(error_of("zzzzzzzz: 1\n"), HasSubstr("known are mode, bind"));
  EXPECT_THAT(error_of("profiles: [{name: a, when: {dmi: {product_nam: x}}}]"), HasSubstr("'product_name'?"));
  EXPECT_THAT(error_of("profiles: [{name: a, env: {X: {valu: 1}}}]"), HasSubstr("did you mean 'value'?"));
}

TEST(PolicyText, WrongTypesAndValues) {
  EXPECT_THAT(error_of("mode: maybe"), HasSubstr("p.yaml:1:7: mode is 'maybe'"));
  EXPECT_THAT(error_of("mode: shwo"), HasSubstr("did you mean 'show'?"));
  EXPECT_THAT(error_of("bind: perhaps"), HasSubstr("true or false"));
  EXPECT_THAT(error_of("exclude_hcas: mlx5_0"), HasSubstr("must be a list"));
  EXPECT_THAT(error_of("exclude_hcas: [[a]]"), HasSubstr("must be one word"));
  EXPECT_THAT(error_of("fabric_subnet: 10.1.2.3/24"), HasSubstr("write a subnet"));
  EXPECT_THAT(error_of("fabric_subnet: 10.1.2.0"), HasSubstr("write a subnet"));
  EXPECT_THAT(error_of("- a\n- b\n"), HasSubstr("must be a map"));
  EXPECT_THAT(error_of("profiles: [{name: a, when: {gpu_count: many}}]"), HasSubstr("a number from 0"));
  EXPECT_THAT(error_of("profiles: [{name: a, when: {link_layer: ethernet}}]"), HasSubstr("did you mean 'Ethernet'?"));
  EXPECT_THAT(error_of("profiles: [{name: a, when: {files: [x]}}]"), HasSubstr("not an absolute path"));
  EXPECT_THAT(error_of("profiles: [{why: a}]"), HasSubstr("has no name"));
  EXPECT_THAT(error_of("profiles: [{name: a}, {name: a}]"), HasSubstr("is there already, at p.yaml:1"));
}

TEST(PolicyText, VariablesThatCannotBeSet) {
  EXPECT_THAT(error_of("profiles: [{name: a, env: {NCCL_IB_HCA: ''}}]"), HasSubstr("NCCL_IB_HCA is empty"));
  EXPECT_THAT(error_of("profiles: [{name: a, env: {SLURM_CPU_BIND: none}}]"), HasSubstr("cannot be set"));
  EXPECT_THAT(error_of("profiles: [{name: a, env: {NCCLTUNE_SET: x}}]"), HasSubstr("cannot be set"));
  EXPECT_THAT(error_of("profiles: [{name: a, env: {'A B': x}}]"), HasSubstr("not a variable's name"));
  EXPECT_THAT(error_of("profiles: [{name: a, env: {X: {why: b}}}]"), HasSubstr("X has no value"));
  EXPECT_THAT(error_of("profiles: [{name: a, env: {X: {value: b, if_file: true}}}]"), HasSubstr("absolute path"));
}

TEST(PolicyText, BrokenOrHostileYaml) {
  EXPECT_THAT(error_of("mode: [on\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(error_of("mode: on\nmode: off\n"), HasSubstr("p.yaml:2:1: key 'mode' is given twice"));
  EXPECT_THAT(error_of("a: &a [x]\nb: *a\n"), HasSubstr("anchors are not allowed"));
  EXPECT_THAT(error_of("exclude_hcas: [*nowhere]\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(error_of("mode: on\n---\nmode: off\n"), HasSubstr("second document"));
  EXPECT_THAT(error_of(std::string(100000, '[')), HasSubstr("nested too deeply"));
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "{a: ";
  EXPECT_THAT(error_of(deep), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of("? [a]\n: b\n"), HasSubstr("a key must be a word"));
  EXPECT_THAT(error_of("#" + std::string(std::size_t{300} * 1024, 'x')), HasSubstr("larger than 256 KiB"));
  EXPECT_NE(error_of(std::string("mode: \xff\xfe\x00", 9)), "");
}

TEST(PolicyText, EmptyFilesAreTheBuiltInRules) {
  for (const char* text : {"", "\n", "# nothing\n", "---\n", "{}\n", "profiles:\nexclude_hcas:\n"})
    EXPECT_EQ(error_of(text), "") << text;
}

TEST(PolicyText, ValuesKnowTheirLine) {
  const Policy policy = *parse_policy(
      "fabric_subnet: fd02::/16\nexclude_hcas:\n  - mlx5_4\nprofiles:\n  - name: a\n    env:\n      NCCL_IB_TC: 106\n",
      "/etc/p.yaml");
  EXPECT_EQ(policy.fabric_subnet->where, "/etc/p.yaml:1");
  EXPECT_EQ(policy.exclude_hcas[0].where, "/etc/p.yaml:3");
  EXPECT_EQ(policy.profiles[0].env[0].where, "/etc/p.yaml:7");
  EXPECT_EQ(policy.profiles[0].env[0].value, "106");
}

// ---- files

class PolicyFile : public ::testing::Test {
 protected:
  std::string folder = testing::temporary_folder();
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0644) const {
    const std::string path = folder + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  static std::string error_of(const std::string& path, const std::string& drop_in = "") {
    const Result<Policy> policy = load_policy(path, drop_in);
    return policy ? "" : policy.error().text();
  }
};

TEST_F(PolicyFile, MustNotBeWritableByOthers) {
  EXPECT_EQ(error_of(write("a.yaml", "mode: on\n")), "");
  EXPECT_THAT(error_of(write("b.yaml", "mode: on\n", 0666)), HasSubstr("others than its owner may write it"));
  EXPECT_THAT(error_of(write("c.yaml", "mode: on\n", 0664)), HasSubstr("chmod go-w"));
  if (geteuid() != 0) return;
  const std::string path = write("d.yaml", "mode: on\n");
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  EXPECT_THAT(error_of(path), HasSubstr("owned by user 12345"));
}

TEST_F(PolicyFile, LinksFifosFoldersAndAbsentFiles) {
  const std::string path = write("a.yaml", "mode: on\n");
  ASSERT_EQ(symlink(path.c_str(), (folder + "/link.yaml").c_str()), 0);
  EXPECT_THAT(error_of(folder + "/link.yaml"), HasSubstr("a symbolic link is not followed"));
  ASSERT_EQ(mkfifo((folder + "/fifo.yaml").c_str(), 0600), 0);
  EXPECT_THAT(error_of(folder + "/fifo.yaml"), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of(folder), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of(folder + "/none.yaml"), HasSubstr("cannot be opened: No such file or directory"));
  EXPECT_THAT(error_of(write("big.yaml", std::string(size_t{600} * 1024, '#'))), HasSubstr("larger than"));
}

TEST_F(PolicyFile, DropInsComeFirst) {
  const std::string path = write("a.yaml", "mode: show\nprofiles: [{name: x}, {name: y}]\n");
  ASSERT_EQ(mkdir((folder + "/d").c_str(), 0755), 0);
  write("d/10.yaml", "profiles: [{name: z}, {name: y, net_plugin: p}]\n");
  write("d/20.yaml", "fabric_subnet: 10.0.0.0/8\nbind: false\n");
  write("d/.swp.yaml", "broken: [\n");
  const Policy policy = *load_policy(path, folder + "/d");
  EXPECT_EQ(policy.mode, Mode::show);  // no drop-in says otherwise
  EXPECT_FALSE(policy.bind);
  ASSERT_EQ(policy.profiles.size(), 3u);
  EXPECT_EQ(policy.profiles[0].name, "z");
  EXPECT_EQ(policy.profiles[1].net_plugin, "p");
  EXPECT_EQ(policy.profiles[2].name, "x");
  EXPECT_EQ(policy.sources.size(), 3u);
}

TEST_F(PolicyFile, ABrokenDropInIsLeftOutAndTheRestStands) {
  const std::string path = write("a.yaml", "mode: off\nprofiles: [{name: x}]\n");
  ASSERT_EQ(mkdir((folder + "/d").c_str(), 0755), 0);
  write("d/10.yaml", "profiles: [{name: y}]\nwhat: ever\n");
  write("d/20.yaml", "profiles: [}\n");
  write("d/30.yaml", "profiles: [{name: z}]\n");
  write("d/40.yaml", "profiles: [{name: w}]\n", 0666);
  ASSERT_EQ(symlink(path.c_str(), (folder + "/d/50.yaml").c_str()), 0);
  const Policy policy = *load_policy(path, folder + "/d");
  EXPECT_EQ(policy.mode, Mode::off);
  ASSERT_EQ(policy.profiles.size(), 2u);
  EXPECT_EQ(policy.profiles[0].name, "z");
  EXPECT_EQ(policy.profiles[1].name, "x");
  ASSERT_EQ(policy.left_out.size(), 4u);
  EXPECT_THAT(policy.left_out[0].text(), HasSubstr("/d/10.yaml:2:1: unknown key 'what'"));
  EXPECT_THAT(policy.left_out[1].text(), HasSubstr("/d/20.yaml:1:"));
  EXPECT_THAT(policy.left_out[2].text(), HasSubstr("/d/40.yaml: others than its owner may write it"));
  EXPECT_THAT(policy.left_out[3].text(), HasSubstr("/d/50.yaml: a symbolic link is not followed"));
  EXPECT_EQ(policy.sources.size(), 2u);
}

TEST_F(PolicyFile, AFolderThatIsALinkIsNotFollowed) {
  const std::string path = write("a.yaml", "profiles: [{name: x}]\n");
  ASSERT_EQ(mkdir((folder + "/real").c_str(), 0755), 0);
  write("real/10.yaml", "profiles: [{name: y}]\n");
  ASSERT_EQ(symlink("real", (folder + "/d").c_str()), 0);
  const Policy policy = *load_policy(path, folder + "/d");
  EXPECT_EQ(policy.profiles.size(), 1u);
  ASSERT_EQ(policy.left_out.size(), 1u);
  EXPECT_EQ(policy.left_out[0].text(), folder + "/d: a symbolic link is not followed; name the folder itself");
}

// A typing error elsewhere in a file does not take the brake off; a file of somebody else's pulls none.
TEST_F(PolicyFile, BrakesOfABrokenFileCount) {
  const std::string none = folder + "/none";
  const std::string path = write("a.yaml", "mode: off\nbind: false\nexclud_hcas: [a]\nfabric_subnet: 10.0.0.0/8\n");
  const Policy policy = load_what_stands(path, none);
  EXPECT_EQ(policy.mode, Mode::off);
  EXPECT_FALSE(policy.bind);
  EXPECT_FALSE(policy.fabric_subnet);
  ASSERT_EQ(policy.left_out.size(), 1u);
  EXPECT_THAT(policy.left_out[0].text(), HasSubstr("unknown key 'exclud_hcas'"));
  EXPECT_EQ(load_what_stands(write("b.yaml", "mode: on\nbind: true\nx: y\n"), none).mode, Mode::on);
  EXPECT_EQ(load_what_stands(write("c.yaml", "mode: off\nprofiles: [}\n"), none).mode, Mode::on);
  EXPECT_EQ(load_what_stands(write("d.yaml", "mode: off\n", 0666), none).mode, Mode::on);
  EXPECT_EQ(load_what_stands(write("e.yaml", "mode: [off]\n"), none).mode, Mode::on);

  ASSERT_EQ(mkdir((folder + "/d").c_str(), 0755), 0);
  write("d/10.yaml", "mode: show\nx: y\n");
  write("d/20.yaml", "mode: on\nz: y\n");  // a broken file lets go of nothing
  EXPECT_EQ(load_what_stands(write("f.yaml", "mode: on\n"), folder + "/d").mode, Mode::show);
  EXPECT_EQ(load_what_stands(folder + "/nosuch.yaml", folder + "/d").mode, Mode::show);
  EXPECT_EQ(load_what_stands(folder + "/nosuch.yaml", folder + "/d").left_out.size(), 3u);
}

// ---- profiles

Policy with_profiles(const std::string& text) { return *parse_policy(text, "p.yaml"); }

TEST(Profiles, FirstWhoseConditionsAllHold) {
  NodeBuilder machine;
  machine.gpus({0, 1});
  machine.hca({"mlx5_0", 0, "Ethernet", 200, 0x1021, "10.1.0.2/24"});
  machine.node.dmi["product_name"] = "XE9680-A";
  machine.node.files["/opt/x"] = true;
  const Policy policy = with_profiles(R"(
profiles:
  - {name: dmi, when: {dmi: {product_name: "R7*"}}}
  - {name: gpu, when: {gpu: "10de:20*"}}
  - {name: count, when: {gpu_count: 8}}
  - {name: driver, when: {hca_driver: bnxt_en}}
  - {name: layer, when: {link_layer: InfiniBand}}
  - {name: file, when: {files: ["/opt/y"]}}
  - name: right
    when: {dmi: {product_name: "XE9680*"}, gpu: "10DE:2330", gpu_count: 2, hca_driver: mlx5_core, link_layer: Ethernet,
           files: ["/opt/x"]}
    env: {NCCL_IB_TC: {value: 106, why: the lossless class}}
  - {name: late}
)");
  const Plan plan = plan_node(machine.node, policy, {});
  EXPECT_EQ(plan.platform, "right");
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_TC"), "106");
  for (const EnvSetting& setting : plan.env) {
    if (setting.name != "NCCL_IB_TC") continue;
    EXPECT_EQ(setting.rule, "profile.right");
    EXPECT_EQ(setting.why, "the lossless class (p.yaml:12).");
  }
  Step forced;
  forced.profile = "late";
  EXPECT_EQ(plan_node(machine.node, policy, forced).profile, "late");
  EXPECT_EQ(plan_node(machine.node, policy, forced).platform, "right");
  forced.profile = "nonsense";
  EXPECT_EQ(plan_node(machine.node, policy, forced).profile, "right");
}

TEST(Profiles, AnExtendedOneKeepsTheValuesOfItsBase) {
  NodeBuilder machine;
  machine.gpus({0, 1});
  const Policy policy = with_profiles(R"(
profiles:
  - {name: tuned, extends: oci, why: measured, env: {NCCL_IB_TC: 106, NCCL_MIN_CTAS: 32}}
  - {name: oci, extends: root, why: the vendor sets it, env: {NCCL_IB_TC: 41, NCCL_IB_SL: 3}}
  - {name: root, net_plugin: gib, env: {NCCL_IB_SL: 4, NCCL_IB_TIMEOUT: {value: 22, why: flaps}}}
  - {name: lost, extends: nowhere, env: {X: 1}}
  - {name: circle, extends: circle, env: {X: 1}}
)");
  const Plan plan = plan_node(machine.node, policy, {});
  EXPECT_EQ(plan.profile, "tuned");
  EXPECT_EQ(plan.profile_why, "measured");
  EXPECT_EQ(plan.profile_where, "p.yaml:3");
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_TC"), "106");
  EXPECT_EQ(value_of(plan.env, "NCCL_MIN_CTAS"), "32");
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_SL"), "3");
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_TIMEOUT"), "22");
  std::map<std::string, EnvSetting> set;
  for (const EnvSetting& setting : plan.env) set[setting.name] = setting;
  EXPECT_EQ(set["NCCL_IB_SL"].why, "the vendor sets it (p.yaml:4).");
  EXPECT_EQ(set["NCCL_IB_SL"].where, "p.yaml:4");
  EXPECT_EQ(set["NCCL_IB_TC"].where, "p.yaml:3");
  EXPECT_EQ(set["CUDA_DEVICE_ORDER"].where, "");
  Step step;
  step.profile = "lost";
  EXPECT_EQ(notes_of(plan_node(machine.node, policy, step).notes, "profile lost"),
            "extends 'nowhere', which the policy does not have (p.yaml:6)");
  step.profile = "circle";
  EXPECT_THAT(notes_of(plan_node(machine.node, policy, step).notes, "profile circle"), HasSubstr("which extends it"));
}

TEST(Profiles, PluginFabricLeavesNcclIbAlone) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 0, "Ethernet", 200, 0x1021, "10.1.0.2/24"});
  machine.net("eth0", "192.168.0.9/24");
  machine.default_route("eth0");
  const Plan plan = plan_node(machine.node, with_profiles("profiles: [{name: g, net_plugin: gib}]"), {});
  for (const EnvSetting& setting : plan.env) EXPECT_NE(setting.name.rfind("NCCL_IB_", 0), 0u) << setting.name;
  EXPECT_EQ(value_of(plan.env, "NCCL_NET_PLUGIN"), "(unset)");
  EXPECT_EQ(value_of(plan.env, "NCCL_SOCKET_IFNAME"), "=eth0");
  EXPECT_EQ(use_of(plan, "mlx5_0"), "other-fabric");
}

TEST(Profiles, F35TopologyFileOnlyWhereItCanBeRead) {
  NodeBuilder machine;
  machine.gpu(0);
  const Policy policy = with_profiles(
      "profiles: [{name: a, env: {NCCL_TOPO_FILE: /opt/t.xml, NCCL_GRAPH_FILE: {value: /opt/g*.xml, if_file: true}}}]");
  EXPECT_THAT(policy.files(), Contains("/opt/t.xml"));
  EXPECT_THAT(policy.topology_files(), Contains("/opt/t.xml"));
  machine.node.files = {{"/opt/t.xml", false}, {"/opt/g*.xml", true}, {"/opt/g1.xml", true}, {"/opt/g2.xml", true}};
  Plan plan = plan_node(machine.node, policy, {});
  EXPECT_EQ(value_of(plan.env, "NCCL_TOPO_FILE"), "(unset)");
  EXPECT_EQ(value_of(plan.env, "NCCL_GRAPH_FILE"), "(unset)");  // which of the two is not clear
  EXPECT_NE(notes_of(plan.notes, "NCCL_TOPO_FILE"), "");
  machine.node.files["/opt/t.xml"] = true;
  machine.node.files.erase("/opt/g2.xml");
  plan = plan_node(machine.node, policy, {});
  EXPECT_EQ(value_of(plan.env, "NCCL_TOPO_FILE"), "/opt/t.xml");
  EXPECT_EQ(value_of(plan.env, "NCCL_GRAPH_FILE"), "/opt/g1.xml");
}

TEST(Profiles, TheShippedOnesHaveReasons) {
  for (const Profile& profile : shipped_policy().profiles) {
    EXPECT_FALSE(profile.why.empty()) << profile.name;
    EXPECT_TRUE(profile.net_plugin.empty() || profile.env.empty()) << profile.name;
  }
}

TEST(Profiles, RoceThatNoProfileKnows) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 0, "Ethernet", 200, 0x1021, "10.1.0.2/24"});
  Plan plan = plan_node(machine.node, shipped_policy(), {});
  EXPECT_EQ(plan.platform, "roce");
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_TIMEOUT"), "22");
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_QPS_PER_CONNECTION"), "8");
  machine.node.rdma[0].ports[0].link_layer = "InfiniBand";
  machine.node.rdma[0].ports[0].lid = 3;
  plan = plan_node(machine.node, shipped_policy(), {});
  EXPECT_EQ(plan.platform, "generic");
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_TIMEOUT"), "(unset)");
}

}  // namespace
}  // namespace nccltune
