// Splits a text at tokens that it spells out.
#include "worker/trainer/data/tokenizer/added_tokens.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "unicode/uchar.h"
#include "unicode/utf8.h"

namespace comera::trainer {
namespace {

// Where the spaces that end at `end` begin, not before `begin`.
size_t SpacesBegin(absl::string_view text, size_t begin, size_t end) {
  while (end > begin) {
    // U8_PREV counts in 32 bits, so it sees no more than a character's bytes.
    const size_t seen = std::min<size_t>(end - begin, U8_MAX_LENGTH);
    const char* const data = text.data() + end - seen;
    int32_t at = static_cast<int32_t>(seen);
    UChar32 c = 0;
    U8_PREV(data, 0, at, c);
    if (c < 0 || !u_isUWhiteSpace(c)) break;
    end -= seen - static_cast<size_t>(at);
  }
  return end;
}

// Where the spaces that begin at `begin` end.
size_t SpacesEnd(absl::string_view text, size_t begin) {
  const int64_t size = static_cast<int64_t>(text.size());
  int64_t at = static_cast<int64_t>(begin);
  while (at < size) {
    int64_t next = at;
    UChar32 c = 0;
    U8_NEXT(text.data(), next, size, c);
    if (c < 0 || !u_isUWhiteSpace(c)) break;
    at = next;
  }
  return static_cast<size_t>(at);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    (tokens_[i].normalized ? normalized_ : first_)
        .Add(tokens_[i].content, static_cast<int32_t>(i));
  }
}

void AddedTokens::SplitBy(const PrefixTrie& trie, absl::string_view text,
                          const Visit& visit) const {
  size_t done = 0;  // where the text that was not visited yet begins
  for (size_t at = 0; at < text.size() && !trie.empty();) {
    const PrefixTrie::Match match = trie.Longest(text.substr(at));
    if (match.length == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[match.value];
    const size_t begin = token.strips_left ? SpacesBegin(text, done, at) : at;
    size_t end = at + match.length;
    if (token.strips_right) end = SpacesEnd(text, end);
    if (begin > done) visit(text.substr(done, begin - done), -1);
    visit(text.substr(begin, end - begin), token.id);
    done = at = end;
  }
  if (done < text.size()) visit(text.substr(done), -1);
}

void AddedTokens::Split(absl::string_view text, const Visit& visit) const {
  SplitBy(first_, text, [&](absl::string_view part, int32_t id) {
    if (id >= 0) {
      visit(part, id);
    } else {
      SplitBy(normalized_, part, visit);
    }
  });
}

}  // namespace comera::trainer
