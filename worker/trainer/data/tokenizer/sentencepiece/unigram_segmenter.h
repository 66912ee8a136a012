#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_UNIGRAM_SEGMENTER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_UNIGRAM_SEGMENTER_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/prefix_trie.h"
#include "worker/trainer/data/tokenizer/sentencepiece/model.h"
#include "worker/trainer/data/tokenizer/sentencepiece/piece_segmenter.h"

namespace comera::trainer {

// The unigram language model of SentencePiece: the pieces with the largest sum
// of scores (logarithms of probabilities), found by dynamic programming.
class UnigramSegmenter : public PieceSegmenter {
 public:
  // `model` outlives the segmenter.
  explicit UnigramSegmenter(const SentencePieceModel* model);

  void Append(absl::string_view text, std::vector<int32_t>* ids) const override;

 private:
  // The best way to a place of a text.
  struct Place {
    float score = 0;
    // Where its last piece begins; -1: there is no way yet.
    int32_t begin = -1;
    int32_t id = -1;
  };

  // Score of the piece `id`, which is `size` bytes long.
  double Score(int32_t id, size_t size) const;
  // Best ways to each place of `text`, its size included.
  std::vector<Place> BestWays(absl::string_view text) const;

  const SentencePieceModel& model_;
  float largest_score_;
  float unknown_score_;
  PrefixTrie pieces_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_UNIGRAM_SEGMENTER_H_
