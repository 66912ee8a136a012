// Rewrites a textproto token by token where it uses former names.

#include "proto/former_names_textproto.h"

#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/former_names.h"

namespace comera {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::Tokenizer;

// Notices that there was an error; the parser will say which.
class ErrorFlag : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string&) override { raised_ = true; }
  bool raised() const { return raised_; }

 private:
  bool raised_ = false;
};

// Follows the nesting of a textproto and renames fields as they go by.
class Renamer {
 public:
  Renamer(std::string name, const Descriptor& type)
      : name_(std::move(name)), frames_(1, Frame{&type, "", nullptr, {}}) {}

  // Renames `token` if it is a field's name.
  absl::Status Field(Tokenizer::Token* token) {
    Frame& frame = frames_.back();
    frame.field = nullptr;
    if (frame.type == nullptr) return absl::OkStatus();
    const std::string written = token->text;
    frame.field = frame.type->FindFieldByName(written);
    const bool former = frame.field == nullptr;
    if (former) frame.field = FindByFormerName(*frame.type, written);
    if (frame.field == nullptr) return absl::OkStatus();
    const auto [given, is_new] = frame.given.emplace(frame.field, written);
    if (!is_new && given->second != written) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ":", token->line + 1, ": ", frame.path, written,
                       ": is `", given->second, "`, which is given too"));
    }
    if (former) {
      notes_.push_back(absl::StrCat(
          name_, ":", token->line + 1, ": ",
          FormerNameNote(frame.path + written, frame.field->name())));
      token->text = frame.field->name();
    }
    return absl::OkStatus();
  }

  // Enters the field that was named last.
  void Open() {
    const Frame& outer = frames_.back();
    Frame inner = {nullptr, outer.path, nullptr, {}};
    if (outer.field != nullptr) {
      inner.type = outer.field->message_type();
      absl::StrAppend(&inner.path, outer.field->name(), ".");
    }
    frames_.push_back(std::move(inner));
  }
  void Close() {
    if (frames_.size() > 1) frames_.pop_back();
  }

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  // A message that is being read.
  struct Frame {
    const Descriptor* type;  // null: unknown
    std::string path;        // empty, or ends in a dot
    const FieldDescriptor* field;
    // Fields so far, and how each was spelled.
    std::map<const FieldDescriptor*, std::string> given;
  };

  const std::string name_;
  std::vector<Frame> frames_;
  std::vector<std::string> notes_;
};

// The tokens as a text in which each stays on its line.
std::string Join(const std::vector<Tokenizer::Token>& tokens) {
  std::string text;
  int line = 0;
  for (const Tokenizer::Token& token : tokens) {
    text.append(token.line - line, '\n');
    line = token.line;
    absl::StrAppend(&text, token.text, " ");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> WithCurrentNames(const std::string& contents,
                                             const std::string& name,
                                             const Descriptor& type,
                                             std::vector<std::string>* notes) {
  ErrorFlag error;
  google::protobuf::io::ArrayInputStream stream(
      contents.data(), static_cast<int>(contents.size()));
  Tokenizer tokenizer(&stream, &error);
  tokenizer.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  tokenizer.set_allow_f_after_float(true);
  std::vector<Tokenizer::Token> tokens;
  Renamer renamer(name, type);
  while (tokenizer.Next()) {
    const std::string& text = tokenizer.current().text;
    const bool opens = text == "{" || text == "<";
    if ((opens || text == ":") && !tokens.empty() &&
        tokens.back().type == Tokenizer::TYPE_IDENTIFIER) {
      RETURN_IF_ERROR(renamer.Field(&tokens.back()));
    }
    if (opens) renamer.Open();
    if (text == "}" || text == ">") renamer.Close();
    tokens.push_back(tokenizer.current());
  }
  if (error.raised() || renamer.notes().empty()) return contents;
  if (notes != nullptr) {
    notes->insert(notes->end(), renamer.notes().begin(), renamer.notes().end());
  }
  return Join(tokens);
}

}  // namespace comera
