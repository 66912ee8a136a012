// Characters as tokens, and the file that lists them.
#include "worker/trainer/data/tokenizer/code_point_tokenizer.h"

#include <cstddef>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "unicode/utf8.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

// All of Unicode's characters take less.
constexpr int64_t kMaxFileBytes = 16 << 20;
constexpr int32_t kUnknown = 0;
constexpr int32_t kEnd = 1;
constexpr int32_t kFirstCharacter = 2;
constexpr absl::string_view kUnknownText = "\xef\xbf\xbd";  // U+FFFD

std::string Utf8(UChar32 c) {
  char bytes[U8_MAX_LENGTH];
  int32_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, c);
  return std::string(bytes, size);
}

// The one code point of `token`, negative if it is not exactly one.
UChar32 CodePoint(absl::string_view token) {
  const int64_t size = static_cast<int64_t>(token.size());
  if (size == 0) return -1;
  int64_t i = 0;
  UChar32 c = 0;
  U8_NEXT(token.data(), i, size, c);
  return i == size ? c : -1;
}

std::string FileOfTokens(const std::vector<std::string>& tokens) {
  return JsonText(nlohmann::json(tokens)) + "\n";
}

}  // namespace

absl::StatusOr<std::unique_ptr<CodePointTokenizer>> CodePointTokenizer::Load(
    const std::string& file) {
  ASSIGN_OR_RETURN(const std::string contents,
                   ReadLimited(file, kMaxFileBytes));
  return Parse(contents, file);
}

absl::StatusOr<std::unique_ptr<CodePointTokenizer>> CodePointTokenizer::Parse(
    absl::string_view contents, const std::string& name) {
  const auto fail = [&](const std::string& what) {
    return absl::DataLossError(absl::StrCat(PrintablePath(name), ": ", what));
  };
  const nlohmann::json list = ParseJson(contents);
  if (!list.is_array()) return fail("must be a list of tokens");
  std::vector<std::string> tokens;
  UChar32 last = -1;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string()) {
      return fail(absl::StrCat("token ", i, " is not a text"));
    }
    tokens.push_back(list[i].get<std::string>());
    if (i < kFirstCharacter) continue;
    const UChar32 c = CodePoint(tokens.back());
    if (c <= last) {
      return fail(absl::StrCat("token ", i,
                               " is not a character behind the one before it"));
    }
    last = c;
  }
  if (tokens.size() < kFirstCharacter || tokens[kUnknown] != "<unk>" ||
      tokens[kEnd] != "</s>") {
    return fail("must begin with <unk> and </s>");
  }
  return absl::WrapUnique(new CodePointTokenizer(std::move(tokens)));
}

std::string CodePointTokenizer::FileOf(const CodePointSet& characters) {
  std::vector<std::string> tokens = {"<unk>", "</s>"};
  for (const int32_t c : characters.CodePoints()) tokens.push_back(Utf8(c));
  return FileOfTokens(tokens);
}

CodePointTokenizer::CodePointTokenizer(std::vector<std::string> tokens)
    : tokens_(std::move(tokens)) {
  for (size_t id = kFirstCharacter; id < tokens_.size(); ++id) {
    const auto c = static_cast<size_t>(CodePoint(tokens_[id]));
    ids_.resize(c + 1, kUnknown);
    ids_[c] = static_cast<int32_t>(id);
  }
  special_.pad = kEnd;
  special_.cls = -1;
  special_.sep = kEnd;
  special_.mask = -1;
  special_.unk = kUnknown;
}

void CodePointTokenizer::Encode(absl::string_view text,
                                std::vector<int32_t>* ids) {
  const int64_t size = static_cast<int64_t>(text.size());
  for (int64_t i = 0; i < size;) {
    UChar32 c = 0;
    U8_NEXT(text.data(), i, size, c);
    const bool listed = c >= 0 && static_cast<size_t>(c) < ids_.size();
    ids->push_back(listed ? ids_[static_cast<size_t>(c)] : kUnknown);
  }
}

void CodePointTokenizer::AppendBytes(int32_t id, std::string* bytes) const {
  if (id == kEnd) return;
  absl::StrAppend(
      bytes, id == kUnknown ? kUnknownText : absl::string_view(tokens_[id]));
}

absl::Status CodePointTokenizer::Save(const std::string& directory) const {
  return WriteFileAtomically(directory + "/characters.json",
                             FileOfTokens(tokens_));
}

}  // namespace comera::trainer
