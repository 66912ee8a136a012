// Merges characters to the pieces of a SentencePiece BPE.
#include "worker/trainer/data/tokenizer/sentencepiece/bpe_segmenter.h"

#include <queue>

#include "unicode/utf8.h"

namespace comera::trainer {
namespace {

struct Candidate {
  float score;
  int32_t left;
  int32_t right;
  size_t size;  // bytes of both
  // Orders a heap with the largest score, then the leftmost, on top.
  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

}  // namespace

BpeSegmenter::BpeSegmenter(const SentencePieceModel* model) : model_(*model) {
  for (size_t i = 0; i < model_.pieces.size(); ++i) {
    const SentencePieceModel::Piece& piece = model_.pieces[i];
    const int32_t id = static_cast<int32_t>(i);
    if (piece.is_text()) ids_.emplace(piece.text, id);
    if (piece.type == SentencePieceModel::Type::kUserDefined) {
      user_defined_.Add(piece.text, id);
    }
  }
}

std::vector<BpeSegmenter::Symbol> BpeSegmenter::Symbols(
    absl::string_view text) const {
  std::vector<Symbol> symbols;
  while (!text.empty()) {
    const int32_t index = static_cast<int32_t>(symbols.size());
    size_t size = user_defined_.Longest(text).length;
    const bool fixed = size > 0;
    if (!fixed) {
      int64_t end = 0;
      U8_FWD_1(text.data(), end, static_cast<int64_t>(text.size()));
      size = static_cast<size_t>(end);
    }
    symbols.push_back({text.substr(0, size), index - 1, index + 1, fixed});
    text.remove_prefix(size);
  }
  if (!symbols.empty()) symbols.back().next = -1;
  return symbols;
}

void BpeSegmenter::Merge(std::vector<Symbol>* symbols_out,
                         Halves* halves) const {
  std::vector<Symbol>& symbols = *symbols_out;
  std::priority_queue<Candidate> heap;
  const auto propose = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0 || symbols[left].fixed || symbols[right].fixed) {
      return;
    }
    const absl::string_view both(
        symbols[left].text.data(),
        symbols[left].text.size() + symbols[right].text.size());
    const auto found = ids_.find(both);
    if (found == ids_.end()) return;
    const SentencePieceModel::Piece& piece = model_.pieces[found->second];
    heap.push({piece.score, left, right, both.size()});
    if (piece.type == SentencePieceModel::Type::kUnused) {
      (*halves)[both] = symbols[left].text.size();
    }
  };
  for (size_t i = 1; i < symbols.size(); ++i) {
    propose(static_cast<int32_t>(i - 1), static_cast<int32_t>(i));
  }
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    Symbol& left = symbols[top.left];
    Symbol& right = symbols[top.right];
    // Either side may have changed since this was proposed.
    if (left.text.empty() || right.text.empty() ||
        left.text.size() + right.text.size() != top.size) {
      continue;
    }
    left.text = absl::string_view(left.text.data(), top.size);
    right.text = absl::string_view();
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = top.left;
    propose(left.previous, top.left);
    propose(top.left, left.next);
  }
}

void BpeSegmenter::AppendSymbol(absl::string_view text, const Halves& halves,
                                std::vector<int32_t>* ids) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) {
    model_.AppendUnknown(text, ids);
    return;
  }
  const auto half = halves.find(text);
  if (half == halves.end()) {
    ids->push_back(found->second);
    return;
  }
  AppendSymbol(text.substr(0, half->second), halves, ids);
  AppendSymbol(text.substr(half->second), halves, ids);
}

void BpeSegmenter::Append(absl::string_view text,
                          std::vector<int32_t>* ids) const {
  std::vector<Symbol> symbols = Symbols(text);
  Halves halves;
  Merge(&symbols, &halves);
  for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[i].next) {
    AppendSymbol(symbols[i].text, halves, ids);
  }
}

}  // namespace comera::trainer
