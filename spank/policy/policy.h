// SPDX-License-Identifier: Apache-2.0
// What the site decided: the policy file, as data.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/node.h"

namespace nccltune {

enum class Mode { on, off, show };

// A value with the place it was written at, so that every plan can show the file and the line behind it.
struct Sourced {
  std::string value;
  std::string where;  // "/etc/nccl-tune.yaml:14"
};

// `when` of a profile: every condition that is given must hold. An empty one always matches.
struct ProfileCondition {
  std::map<std::string, std::string> dmi;  // field -> glob, as in product_name: "p5*"
  std::string gpu;                         // "vendor:device" glob, "10de:2330"
  std::optional<int> gpu_count;
  std::string hca_driver;          // "efa"
  std::string link_layer;          // "Ethernet", "InfiniBand": of the chosen HCAs
  std::vector<std::string> files;  // each must exist (globs)
};

struct ProfileEnv {
  std::string name, value, why;
  std::string where;
  bool if_file = false;  // only where the value is the path of a file that can be read
};

struct Profile {
  std::string name;
  ProfileCondition when;
  std::string extends;  // name of the profile whose values hold where this one has none; "": none
  std::vector<ProfileEnv> env;
  std::string
      net_plugin;  // the fabric that NCCL reaches through a plugin of its own ("efa", "tcpx", "gib"): no NCCL_IB_*
  std::string why;
  std::string where;
};

// Findings of `nccl-tune check` that the site lives with: they are shown with the reason and do not count as failures.
struct IgnoredCheck {
  std::string id;            // of the check, or a glob: "rdma.*"
  std::string object = "*";  // glob over the finding's object
  std::string reason;
  std::string where;
};

struct Policy {
  Mode mode = Mode::on;
  bool bind = true;
  std::vector<Sourced> exclude_hcas;     // exact names
  std::optional<Sourced> fabric_subnet;  // CIDR: only HCAs with an address in it carry the fabric
  std::optional<Sourced> socket_ifname;  // the site's choice, by exact name
  std::vector<Profile> profiles;         // in order; the first whose `when` matches wins
  std::vector<IgnoredCheck> ignore_checks;
  std::vector<std::string> sources;  // files that were read
  std::vector<Error> left_out;       // files and folders that were not, and why: the rest stands without them

  // Every path whose presence the profiles ask for, and every vendor topology file they name: for ReadOptions.
  std::vector<std::string> files() const;
  std::vector<std::string> topology_files() const;
};

// Parses policy text. An unknown key, a wrong type or a value out of range is an Error whose object is
// "FILE:line:column" and whose remedy names the nearest known key.
Result<Policy> parse_policy(const std::string& text, const std::string& file);

// The folder of drop-ins that goes with a policy file: "/etc/nccl-tune.yaml" -> "/etc/nccl-tune.d".
std::string drop_in_of(const std::string& policy);

// Reads a policy file and, after it, the *.yaml of drop_in (a folder; "" for none), whose profiles win by order.
// Each must be owned by root (or by the caller, outside root) and writable by nobody else; opened O_NOFOLLOW. A broken
// drop-in is left out, with its fault in left_out; a fault of the file itself is the Error.
Result<Policy> load_policy(const std::string& file, const std::string& drop_in);

// The same for a reader that must go on whatever is wrong: a broken file is left out like a drop-in, its fault first.
// Of any file that is left out for a wrong key or value, `mode: off`, `mode: show` and `bind: false` still count: a
// typing error must not take the brake off. Nothing counts of a file that others may write or that is no YAML.
Policy load_what_stands(const std::string& file, const std::string& drop_in);

}  // namespace nccltune
