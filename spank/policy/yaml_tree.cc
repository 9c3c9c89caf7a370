// SPDX-License-Identifier: Apache-2.0
#include "policy/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

#include "base/text.h"

namespace nccltune {
namespace {

struct Refusal {
  YAML::Mark mark;
  std::string what;
};

std::string place(const std::string& file, int line, int column) {
  return file + ":" + std::to_string(line) + ":" + std::to_string(column);
}

// Builds the tree from the parser's events. A map's children come as key, value, key, value.
class TreeBuilder : public YAML::EventHandler {
 public:
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { throw Refusal{mark, "aliases are not allowed here"}; }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(make(YamlNode::Kind::null, mark, anchor), mark);
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string& value) override {
    YamlNode node = make(YamlNode::Kind::scalar, mark, anchor);
    node.scalar = value;
    add(std::move(node), mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(make(YamlNode::Kind::list, mark, anchor), mark);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(make(YamlNode::Kind::map, mark, anchor), mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::Mark mark;
    YamlNode key;
    bool has_key = false;
  };

  static YamlNode make(YamlNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) throw Refusal{mark, "anchors are not allowed here"};
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void open(YamlNode node, const YAML::Mark& mark) {
    if (open_.size() >= static_cast<std::size_t>(kMaxYamlDepth)) throw Refusal{mark, "nested too deeply"};
    open_.push_back({std::move(node), mark, {}, false});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.node), done.mark);
  }

  void add(YamlNode node, const YAML::Mark& mark) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.has_key) {
      parent.node.entries.emplace_back(std::move(parent.key), std::move(node));
      parent.has_key = false;
    } else {
      if (node.kind != YamlNode::Kind::scalar) throw Refusal{mark, "a key must be a word"};
      if (parent.node.find(node.scalar) != nullptr) throw Refusal{mark, "key '" + node.scalar + "' is given twice"};
      parent.key = std::move(node);
      parent.has_key = true;
    }
  }

  YamlNode root_;
  std::vector<Open> open_;
};

}  // namespace

YamlNode::YamlNode() = default;
YamlNode::YamlNode(const YamlNode&) = default;
YamlNode::YamlNode(YamlNode&&) noexcept = default;
YamlNode& YamlNode::operator=(const YamlNode&) = default;
YamlNode& YamlNode::operator=(YamlNode&&) noexcept = default;
YamlNode::~YamlNode() = default;

const YamlNode* YamlNode::find(const std::string& key) const {
  for (const auto& [name, value] : entries)
    if (name.scalar == key) return &value;
  return nullptr;
}

Result<YamlNode> parse_yaml(const std::string& text, const std::string& file) {
  if (text.size() > kMaxPolicyBytes)
    return Error{file, "larger than " + std::to_string(kMaxPolicyBytes / 1024) + " KiB", "", ""};
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder builder;
    if (!parser.HandleNextDocument(builder)) return YamlNode{};
    YamlNode root = builder.take();
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      const YamlNode extra = second.take();
      return Error{place(file, extra.line, extra.column), "a second document in one file", "", "keep one"};
    }
    return root;
  } catch (const Refusal& refusal) {
    return Error{place(file, refusal.mark.line + 1, refusal.mark.column + 1), refusal.what, "", ""};
  } catch (const YAML::Exception& e) {
    return Error{place(file, e.mark.line + 1, e.mark.column + 1), "not valid YAML", e.msg, ""};
  }
}

Error yaml_error(const std::string& file, const YamlNode& at, std::string what, std::string remedy) {
  return Error{place(file, at.line, at.column), std::move(what), "", std::move(remedy)};
}

}  // namespace nccltune
