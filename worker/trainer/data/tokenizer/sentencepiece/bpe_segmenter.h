#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_BPE_SEGMENTER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_BPE_SEGMENTER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/prefix_trie.h"
#include "worker/trainer/data/tokenizer/sentencepiece/model.h"
#include "worker/trainer/data/tokenizer/sentencepiece/piece_segmenter.h"

namespace comera::trainer {

// The byte pair encoding of SentencePiece: two neighbours, characters at first,
// are merged when together they are a piece; of all the one with the largest
// score goes first, of equal ones the leftmost.
class BpeSegmenter : public PieceSegmenter {
 public:
  // `model` outlives the segmenter.
  explicit BpeSegmenter(const SentencePieceModel* model);

  void Append(absl::string_view text, std::vector<int32_t>* ids) const override;

 private:
  struct Symbol {
    absl::string_view text;  // empty once merged into its left neighbour
    int32_t previous;
    int32_t next;
    // A user-defined piece is not merged.
    bool fixed;
  };
  // Unused pieces that came about, with the size of their left half.
  using Halves = absl::flat_hash_map<absl::string_view, size_t>;

  // The text as characters and user-defined pieces.
  std::vector<Symbol> Symbols(absl::string_view text) const;
  // Merges what can be.
  void Merge(std::vector<Symbol>* symbols, Halves* halves) const;
  // Appends the id of a symbol; of an unused piece those of its halves.
  void AppendSymbol(absl::string_view text, const Halves& halves,
                    std::vector<int32_t>* ids) const;

  const SentencePieceModel& model_;
  // Pieces that characters of a text may become.
  absl::flat_hash_map<absl::string_view, int32_t> ids_;
  PrefixTrie user_defined_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_BPE_SEGMENTER_H_
