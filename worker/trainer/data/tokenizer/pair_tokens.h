// A pair of texts as one sample.
#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_PAIR_TOKENS_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_PAIR_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Cuts the ends of two texts' tokens until both have room in a sample of
// max_length: one token at a time from the longer side, of equal sides from the
// second, as in BERT's own code. Whether anything was cut.
bool CutPair(int32_t max_length, bool has_segments, std::vector<int32_t>* first,
             std::vector<int32_t>* second);

// [CLS] a [SEP] b [SEP]; without segments <s> a </s></s> b </s>. Returns where
// the second text starts.
int32_t JoinPair(const SpecialTokens& special, bool has_segments,
                 const std::vector<int32_t>& first,
                 const std::vector<int32_t>& second,
                 std::vector<int32_t>* sample);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_PAIR_TOKENS_H_
