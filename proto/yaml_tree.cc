// Builds a tree from yaml-cpp's events and refuses what it would silently
// accept.

#include "proto/yaml_tree.h"

#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/common.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/parser.h"

namespace comera {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxDepth = 32;
constexpr int64_t kMaxNodes = 10'000;

// Builds the tree from yaml-cpp's events; throws YAML::ParserException, which
// ends the parse at once.
class Builder : public YAML::EventHandler {
 public:
  YamlNodePtr root() const { return root_; }
  // The position where the last scalar begins.
  const YAML::Mark& last_scalar() const { return last_scalar_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Finish(Start(YamlNode::Kind::kNull, mark), anchor, mark);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) Fail(mark, "alias inside its own anchor");
    Place(found->second, mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor, const std::string& value) override {
    CheckTag(mark, tag);
    auto node = Start(YamlNode::Kind::kScalar, mark);
    node->text = value;
    node->quoted = tag == "!";
    last_scalar_ = mark;
    Finish(std::move(node), anchor, mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag,
                  YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Frame {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor;
    YAML::Mark mark;
    // State of a map: whether a key waits for its value, and the keys seen.
    bool has_key = false;
    std::string key;
    int key_line = 0;
    std::set<std::string> keys;
  };

  [[noreturn]] static void Fail(const YAML::Mark& mark,
                                const std::string& message) {
    throw YAML::ParserException(mark, message);
  }

  static void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") {
      Fail(mark, "tags are not supported");
    }
  }

  static std::shared_ptr<YamlNode> Start(YamlNode::Kind kind,
                                         const YAML::Mark& mark) {
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->line = mark.line + 1;
    return node;
  }

  void Open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    CheckTag(mark, tag);
    if (stack_.size() >= kMaxDepth) {
      Fail(mark, absl::StrCat("nested deeper than ", kMaxDepth, " levels"));
    }
    if (!stack_.empty() && IsKeyPosition()) Fail(mark, "a key must be text");
    Frame frame;
    frame.node = Start(kind, mark);
    frame.anchor = anchor;
    frame.mark = mark;
    stack_.push_back(std::move(frame));
  }

  void Close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    Finish(std::move(frame.node), frame.anchor, frame.mark);
  }

  void Finish(std::shared_ptr<YamlNode> node, YAML::anchor_t anchor,
              const YAML::Mark& mark) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    Place(std::move(node), mark);
  }

  bool IsKeyPosition() const {
    const Frame& frame = stack_.back();
    return frame.node->kind == YamlNode::Kind::kMap && !frame.has_key;
  }

  // Puts a complete value where the innermost open container expects one.
  void Place(YamlNodePtr value, const YAML::Mark& mark) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& frame = stack_.back();
    frame.node->size += value->size;
    if (frame.node->size > kMaxNodes) {
      Fail(mark,
           absl::StrCat("more than ", kMaxNodes, " values, aliases expanded"));
    }
    if (frame.node->kind == YamlNode::Kind::kSequence) {
      frame.node->items.push_back(std::move(value));
    } else if (!frame.has_key) {
      if (value->kind != YamlNode::Kind::kScalar) {
        Fail(mark, "a key must be text");
      }
      if (!frame.keys.insert(value->text).second) {
        Fail(mark, absl::StrCat("duplicate key `", value->text, "`"));
      }
      frame.key = value->text;
      frame.key_line = mark.line + 1;
      frame.has_key = true;
    } else {
      frame.node->entries.push_back(
          {std::move(frame.key), frame.key_line, std::move(value)});
      frame.has_key = false;
    }
  }

  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, YamlNodePtr> anchors_;
  YamlNodePtr root_;
  YAML::Mark last_scalar_;
};

// Whether a quoted scalar that begins at character `position` of `text` is cut
// off by the end of the file. yaml-cpp would accept it as complete.
bool IsCutOff(const std::string& text, int position) {
  size_t i = 0;
  for (int left = position; i < text.size(); ++i) {
    const bool starts_character = (text[i] & 0xC0) != 0x80;
    if (starts_character && left-- == 0) break;
  }
  if (i >= text.size() || (text[i] != '"' && text[i] != '\'')) return false;
  const char quote = text[i];
  for (++i; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      const bool doubled =
          quote == '\'' && i + 1 < text.size() && text[i + 1] == quote;
      if (!doubled) return false;
      ++i;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<YamlNodePtr> ParseYaml(const std::string& raw,
                                      const std::string& name) {
  static constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";
  const std::string contents =
      raw.compare(0, 3, kByteOrderMark) == 0 ? raw.substr(3) : raw;
  if (contents.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":1: larger than ", kMaxBytes, " bytes"));
  }
  // yaml-cpp would silently replace broken characters.
  if (!google::protobuf::internal::IsStructurallyValidUTF8(
          contents.data(), static_cast<int>(contents.size())) ||
      contents.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":1: is not UTF-8 text"));
  }
  try {
    std::istringstream stream(contents);
    YAML::Parser parser(stream);
    Builder builder;
    if (!parser.HandleNextDocument(builder) || builder.root() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(name, ":1: is empty"));
    }
    if (IsCutOff(contents, builder.last_scalar().pos)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", builder.last_scalar().line + 1,
                       ": the quote is never closed"));
    }
    Builder rest;
    if (parser.HandleNextDocument(rest)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":1: holds more than one document"));
    }
    return builder.root();
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", error.mark.line + 1, ": ", error.msg));
  }
}

}  // namespace comera
