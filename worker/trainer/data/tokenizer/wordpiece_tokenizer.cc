// WordPiece: the longest pieces of a vocabulary, from left to right.
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/basic_words.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxFileBytes = 64 << 20;
constexpr size_t kMaxLineBytes = 1 << 10;
constexpr int64_t kMaxTokens = 4 << 20;
constexpr size_t kMaxWordCharacters = 100;

bool StartsCharacter(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

bool Continues(absl::string_view token) {
  return token.size() > 2 && absl::StartsWith(token, "##");
}

}  // namespace

absl::StatusOr<std::unique_ptr<WordpieceTokenizer>> WordpieceTokenizer::Load(
    const std::string& vocabulary_file, bool lowercase) {
  ASSIGN_OR_RETURN(const std::string contents,
                   ReadLimited(vocabulary_file, kMaxFileBytes));
  return Parse(contents, vocabulary_file, lowercase);
}

absl::StatusOr<std::unique_ptr<WordpieceTokenizer>> WordpieceTokenizer::Parse(
    absl::string_view contents, const std::string& name, bool lowercase) {
  auto tokenizer = absl::WrapUnique(new WordpieceTokenizer(lowercase));
  for (int64_t number = 1; !contents.empty(); ++number) {
    const auto fail = [&](const std::string& what) {
      return absl::DataLossError(absl::StrCat(Place(name, number), ": ", what));
    };
    const size_t end = std::min(contents.find('\n'), contents.size());
    absl::string_view line = contents.substr(0, end);
    contents.remove_prefix(std::min(end + 1, contents.size()));
    absl::ConsumeSuffix(&line, "\r");
    if (number > kMaxTokens) return fail("too many tokens");
    if (line.size() > kMaxLineBytes) {
      return fail(absl::StrCat("longer than ", kMaxLineBytes, " bytes"));
    }
    if (line.empty()) return fail("empty line");
    if (!IsValidUtf8(line)) return fail("not UTF-8");
    const int32_t id = static_cast<int32_t>(number - 1);
    const bool continues = Continues(line);
    auto& ids = continues ? tokenizer->continuations_ : tokenizer->starts_;
    if (!ids.emplace(continues ? line.substr(2) : line, id).second) {
      return fail("this token occurs twice");
    }
    tokenizer->tokens_.emplace_back(line);
    tokenizer->longest_token_ =
        std::max(tokenizer->longest_token_, line.size());
  }
  RETURN_IF_ERROR(tokenizer->FindSpecialTokens(name));
  return tokenizer;
}

absl::Status WordpieceTokenizer::FindSpecialTokens(const std::string& name) {
  for (auto [token, id] :
       {std::pair<absl::string_view, int32_t*>{"[PAD]", &special_.pad},
        {"[UNK]", &special_.unk},
        {"[CLS]", &special_.cls},
        {"[SEP]", &special_.sep},
        {"[MASK]", &special_.mask}}) {
    const auto found = starts_.find(token);
    if (found == starts_.end()) {
      return absl::DataLossError(
          absl::StrCat(PrintablePath(name),
                       ": the vocabulary lacks the special token ", token));
    }
    *id = found->second;
  }
  return absl::OkStatus();
}

void WordpieceTokenizer::FindPieces(absl::string_view word,
                                    std::vector<int32_t>* ids) const {
  const size_t first = ids->size();
  if (static_cast<size_t>(std::count_if(
          word.begin(), word.end(), StartsCharacter)) > kMaxWordCharacters) {
    ids->push_back(special_.unk);
    return;
  }
  for (size_t start = 0; start < word.size();) {
    const auto& pieces = start == 0 ? starts_ : continuations_;
    size_t end = std::min(word.size(), start + longest_token_);
    auto found = pieces.end();
    for (; end > start; --end) {
      if (end < word.size() && !StartsCharacter(word[end])) continue;
      found = pieces.find(word.substr(start, end - start));
      if (found != pieces.end()) break;
    }
    if (found == pieces.end()) {
      ids->resize(first);
      ids->push_back(special_.unk);
      return;
    }
    ids->push_back(found->second);
    start = end;
  }
}

void WordpieceTokenizer::EncodeWord(absl::string_view word,
                                    std::vector<int32_t>* ids) {
  if (word.size() > kMaxWordCharacters) return FindPieces(word, ids);
  cache_.Append(word, ids,
                [this](absl::string_view each, std::vector<int32_t>* to) {
                  FindPieces(each, to);
                });
}

void WordpieceTokenizer::Encode(absl::string_view text,
                                std::vector<int32_t>* ids) {
  const std::string words = BasicWords(text, lowercase_);
  for (size_t start = 0; start < words.size();) {
    const size_t end = std::min(words.find(' ', start), words.size());
    if (end > start) {
      EncodeWord(absl::string_view(words).substr(start, end - start), ids);
    }
    start = end + 1;
  }
}

void WordpieceTokenizer::AppendBytes(int32_t id, std::string* bytes) const {
  if (special_.Contains(id)) return;
  const absl::string_view token = tokens_[id];
  if (Continues(token)) {
    absl::StrAppend(bytes, token.substr(2));
  } else {
    absl::StrAppend(bytes, " ", token);
  }
}

absl::Status WordpieceTokenizer::Save(const std::string& directory) const {
  RETURN_IF_ERROR(WriteFileAtomically(directory + "/vocab.txt",
                                      absl::StrJoin(tokens_, "\n") + "\n"));
  return WriteFileAtomically(
      directory + "/tokenizer_config.json",
      absl::StrCat("{\"tokenizer_class\": \"BertTokenizer\", "
                   "\"do_lower_case\": ",
                   lowercase_ ? "true" : "false", "}\n"));
}

}  // namespace comera::trainer
