// Byte-level BPE: splits a text into words and merges their bytes.
#include "worker/trainer/data/tokenizer/byte_bpe_tokenizer.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/tokenizer/byte_level.h"

namespace comera::trainer {
namespace {

// Longer words are rarely seen twice.
constexpr size_t kMaxCachedWord = 64;
// Longer words are cut: bounds the memory that a hostile text can ask for.
constexpr size_t kMaxWord = 64 << 10;

uint64_t Pack(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 |
         static_cast<uint32_t>(right);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteBpeTokenizer>> ByteBpeTokenizer::Create(
    BytePairVocabulary vocabulary) {
  auto tokenizer =
      absl::WrapUnique(new ByteBpeTokenizer(std::move(vocabulary)));
  const std::vector<std::string>& tokens = tokenizer->vocabulary_.tokens;
  absl::flat_hash_map<absl::string_view, int32_t> ids;
  for (size_t id = 0; id < tokens.size(); ++id) {
    ids.emplace(tokens[id], static_cast<int32_t>(id));
  }
  SpecialTokens& special = tokenizer->special_;
  for (auto [name, id] :
       {std::pair<absl::string_view, int32_t*>{"<s>", &special.cls},
        {"<pad>", &special.pad},
        {"</s>", &special.sep},
        {"<unk>", &special.unk},
        {"<mask>", &special.mask}}) {
    const auto found = ids.find(name);
    if (found == ids.end()) {
      return absl::DataLossError(
          absl::StrCat("the vocabulary lacks the special token ", name));
    }
    *id = found->second;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(ByteCharacters()[byte]);
    tokenizer->byte_ids_[byte] =
        found == ids.end() ? special.unk : found->second;
  }
  return tokenizer;
}

ByteBpeTokenizer::ByteBpeTokenizer(BytePairVocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)) {
  merges_.reserve(vocabulary_.merges.size());
  int32_t rank = 0;
  for (const BytePairVocabulary::Merge& merge : vocabulary_.merges) {
    merges_.emplace(Pack(merge.left, merge.right),
                    Result{rank++, merge.result});
  }
}

const ByteBpeTokenizer::Result* ByteBpeTokenizer::FindMerge(
    int32_t left, int32_t right) const {
  const auto found = merges_.find(Pack(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void ByteBpeTokenizer::MergeWord(absl::string_view word,
                                 std::vector<int32_t>* ids) const {
  // A linked list of symbols and a heap of its merges: n log n however long
  // the word is.
  struct Symbol {
    int32_t id;  // -1 once merged into its left neighbour
    int32_t previous;
    int32_t next;
  };
  // (rank, position, left, right): lowest rank first, then leftmost.
  using Candidate = std::tuple<int32_t, int32_t, int32_t, int32_t>;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;

  const int32_t size = static_cast<int32_t>(word.size());
  std::vector<Symbol> symbols(word.size());
  for (int32_t i = 0; i < size; ++i) {
    symbols[i] = {byte_ids_[static_cast<unsigned char>(word[i])], i - 1,
                  i + 1 < size ? i + 1 : -1};
  }
  const auto propose = [&](int32_t at) {
    if (at < 0 || symbols[at].next < 0) return;
    const int32_t left = symbols[at].id;
    const int32_t right = symbols[symbols[at].next].id;
    if (const Result* merge = FindMerge(left, right)) {
      heap.push({merge->rank, at, left, right});
    }
  };
  for (int32_t i = 0; i < size; ++i) propose(i);
  while (!heap.empty()) {
    const auto [rank, at, left, right] = heap.top();
    heap.pop();
    Symbol& symbol = symbols[at];
    // Either side may have changed since this was proposed.
    if (symbol.id != left || symbol.next < 0 ||
        symbols[symbol.next].id != right) {
      continue;
    }
    Symbol& gone = symbols[symbol.next];
    symbol.id = vocabulary_.merges[rank].result;
    symbol.next = gone.next;
    gone.id = -1;
    if (symbol.next >= 0) symbols[symbol.next].previous = at;
    propose(symbol.previous);
    propose(at);
  }
  for (int32_t i = size > 0 ? 0 : -1; i >= 0; i = symbols[i].next) {
    ids->push_back(symbols[i].id);
  }
}

void ByteBpeTokenizer::Encode(absl::string_view text,
                              std::vector<int32_t>* ids) {
  WordSplitter splitter(text);
  absl::string_view word;
  while (splitter.Next(&word)) {
    if (word.size() > kMaxCachedWord) {
      for (; !word.empty();
           word.remove_prefix(std::min(kMaxWord, word.size()))) {
        MergeWord(word.substr(0, kMaxWord), ids);
      }
      continue;
    }
    cache_.Append(word, ids,
                  [this](absl::string_view each, std::vector<int32_t>* to) {
                    MergeWord(each, to);
                  });
  }
}

std::string ByteBpeTokenizer::Decode(const std::vector<int32_t>& ids) const {
  absl::flat_hash_map<absl::string_view, char> bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes.emplace(ByteCharacters()[byte], static_cast<char>(byte));
  }
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary_size() || special_.Contains(id)) continue;
    absl::string_view token = vocabulary_.tokens[id];
    while (!token.empty()) {
      // Byte characters take one or two bytes of UTF-8.
      const size_t length = static_cast<unsigned char>(token[0]) < 0x80 ? 1 : 2;
      const auto found = bytes.find(token.substr(0, length));
      if (found != bytes.end()) text.push_back(found->second);
      token.remove_prefix(std::min(length, token.size()));
    }
  }
  return text;
}

absl::Status ByteBpeTokenizer::Save(const std::string& directory) const {
  RETURN_IF_ERROR(WriteFileAtomically(directory + "/vocab.json",
                                      VocabularyJson(vocabulary_)));
  RETURN_IF_ERROR(
      WriteFileAtomically(directory + "/merges.txt", MergesText(vocabulary_)));
  return WriteFileAtomically(directory + "/tokenizer_config.json",
                             "{\"tokenizer_class\": \"RobertaTokenizer\"}\n");
}

}  // namespace comera::trainer
