// Reads, checks and writes the vocabulary and merges of a BPE.
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

using nlohmann::json;

constexpr size_t kMaxLineBytes = 64 << 10;
constexpr int64_t kMaxFileBytes = 64 << 20;
constexpr size_t kMaxTokens = 4 << 20;

// Characters of a text, counting the lines passed.
class LineCountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineCountingIterator(const char* at, int64_t* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  LineCountingIterator& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  LineCountingIterator operator++(int) {
    LineCountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const LineCountingIterator& other) const {
    return at_ == other.at_;
  }
  bool operator!=(const LineCountingIterator& other) const {
    return at_ != other.at_;
  }

 private:
  const char* at_;
  int64_t* line_;
};

// Takes {"token": id, ...} and nothing else.
class TokenReader : public nlohmann::json_sax<json> {
 public:
  TokenReader(const std::string& name, const int64_t* line)
      : name_(name), line_(line) {}

  absl::StatusOr<std::vector<std::string>> Finish() {
    RETURN_IF_ERROR(status_);
    if (ids_.empty()) {
      return absl::DataLossError(
          absl::StrCat(PrintablePath(name_), ": no tokens"));
    }
    std::vector<std::string> tokens(ids_.size());
    std::vector<bool> seen(ids_.size());
    for (auto& [token, id] : ids_) {
      if (id >= ids_.size()) {
        return absl::DataLossError(absl::StrCat(
            PrintablePath(name_), ": expected ids from 0 to ", ids_.size() - 1,
            " for ", ids_.size(), " tokens: ids have gaps"));
      }
      if (seen[id]) {
        return absl::DataLossError(
            absl::StrCat(PrintablePath(name_), ": id ", id, " occurs twice"));
      }
      seen[id] = true;
      tokens[id] = token;
    }
    return tokens;
  }

  bool key(string_t& token) override {
    token_ = token;
    return true;
  }
  bool number_unsigned(number_unsigned_t id) override {
    if (!inside_) return Fail("expected an object of tokens and ids");
    if (ids_.size() >= kMaxTokens) return Fail("too many tokens");
    if (!ids_.emplace(token_, id).second) {
      return Fail("this token occurs twice");
    }
    return true;
  }
  bool start_object(size_t) override {
    if (inside_) return Fail("an id must be a whole number from 0");
    inside_ = true;
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return WrongValue(); }
  bool end_array() override { return WrongValue(); }
  bool null() override { return WrongValue(); }
  bool boolean(bool) override { return WrongValue(); }
  bool number_integer(number_integer_t) override { return WrongValue(); }
  bool number_float(number_float_t, const string_t&) override {
    return WrongValue();
  }
  bool string(string_t&) override { return WrongValue(); }
  bool binary(binary_t&) override { return WrongValue(); }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail("malformed JSON");
  }

 private:
  bool WrongValue() {
    return Fail(inside_ ? "an id must be a whole number from 0"
                        : "expected an object of tokens and ids");
  }
  bool Fail(const std::string& what) {
    status_ =
        absl::DataLossError(absl::StrCat(Place(name_, *line_), ": ", what));
    return false;
  }

  const std::string& name_;
  const int64_t* const line_;
  absl::flat_hash_map<std::string, uint64_t> ids_;
  std::string token_;
  bool inside_ = false;
  absl::Status status_;
};

absl::StatusOr<std::vector<std::string>> ParseTokens(absl::string_view text,
                                                     const std::string& name) {
  int64_t line = 1;
  TokenReader reader(name, &line);
  json::sax_parse(LineCountingIterator(text.data(), &line),
                  LineCountingIterator(text.data() + text.size(), &line),
                  &reader);
  return reader.Finish();
}

// One of the three tokens that a merge names.
struct Part {
  const char* what;
  absl::string_view token;
  int32_t* id;
};

absl::StatusOr<BytePairVocabulary::Merge> ParseMerge(
    absl::string_view line,
    const absl::flat_hash_map<absl::string_view, int32_t>& ids) {
  if (!IsValidUtf8(line)) return absl::DataLossError("not UTF-8");
  const size_t space = line.find(' ');
  if (space == 0 || space == absl::string_view::npos ||
      space + 1 == line.size() ||
      line.find(' ', space + 1) != absl::string_view::npos) {
    return absl::DataLossError("expected two tokens with a space between");
  }
  BytePairVocabulary::Merge merge;
  const std::string joined =
      absl::StrCat(line.substr(0, space), line.substr(space + 1));
  for (const auto& [what, token, id] :
       {Part{"first token", line.substr(0, space), &merge.left},
        Part{"second token", line.substr(space + 1), &merge.right},
        Part{"joined token", joined, &merge.result}}) {
    const auto found = ids.find(token);
    if (found == ids.end()) {
      return absl::DataLossError(
          absl::StrCat("its ", what, " is not in the vocabulary"));
    }
    *id = found->second;
  }
  return merge;
}

}  // namespace

absl::StatusOr<BytePairVocabulary> ParseBytePairVocabulary(
    absl::string_view vocabulary, const std::string& vocabulary_name,
    absl::string_view merges, const std::string& merges_name) {
  BytePairVocabulary result;
  ASSIGN_OR_RETURN(result.tokens, ParseTokens(vocabulary, vocabulary_name));
  absl::flat_hash_map<absl::string_view, int32_t> ids;
  for (size_t id = 0; id < result.tokens.size(); ++id) {
    ids.emplace(result.tokens[id], static_cast<int32_t>(id));
  }
  absl::flat_hash_set<std::pair<int32_t, int32_t>> pairs;
  for (int64_t number = 1; !merges.empty(); ++number) {
    const size_t end = std::min(merges.find('\n'), merges.size());
    absl::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    absl::ConsumeSuffix(&line, "\r");
    absl::StatusOr<BytePairVocabulary::Merge> merge =
        absl::DataLossError(absl::StrCat("longer than ", kMaxLineBytes));
    if (line.size() <= kMaxLineBytes) {
      if (line.empty() || (number == 1 && absl::StartsWith(line, "#version"))) {
        continue;
      }
      merge = ParseMerge(line, ids);
      if (merge.ok() && !pairs.insert({merge->left, merge->right}).second) {
        merge = absl::DataLossError("this merge occurs twice");
      }
    }
    if (!merge.ok()) {
      return absl::DataLossError(absl::StrCat(Place(merges_name, number), ": ",
                                              merge.status().message()));
    }
    result.merges.push_back(*merge);
  }
  return result;
}

absl::StatusOr<BytePairVocabulary> LoadBytePairVocabulary(
    const std::string& vocabulary_file, const std::string& merges_file) {
  ASSIGN_OR_RETURN(const std::string vocabulary,
                   ReadLimited(vocabulary_file, kMaxFileBytes));
  ASSIGN_OR_RETURN(const std::string merges,
                   ReadLimited(merges_file, kMaxFileBytes));
  return ParseBytePairVocabulary(vocabulary, vocabulary_file, merges,
                                 merges_file);
}

std::string VocabularyJson(const BytePairVocabulary& vocabulary) {
  std::string text = "{";
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    absl::StrAppend(&text, id == 0 ? "" : ", ",
                    JsonText(json(vocabulary.tokens[id])), ": ", id);
  }
  return text + "}\n";
}

std::string MergesText(const BytePairVocabulary& vocabulary) {
  std::string text = "#version: 0.2\n";
  for (const BytePairVocabulary::Merge& merge : vocabulary.merges) {
    absl::StrAppend(&text, vocabulary.tokens[merge.left], " ",
                    vocabulary.tokens[merge.right], "\n");
  }
  return text;
}

}  // namespace comera::trainer
