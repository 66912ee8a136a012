// Masked language modelling: which tokens a model has to predict.
#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_MASKING_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_MASKING_H_

#include <cstdint>
#include <vector>

#include "worker/trainer/data/random/counter_random.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// The sample that a mask belongs to: training masks are drawn anew for each
// (step, sample in the global batch), validation masks belong to the sample.
struct MaskKey {
  uint64_t seed = 0;
  RandomStream stream = RandomStream::kTrainMask;
  uint64_t step = 0;
  uint64_t sample = 0;
};

// Share of the chosen tokens that become the mask token.
inline constexpr float kMaskShare = 0.8f;

// Labels that MaskTokens makes at most for a sample of `length` tokens: the
// capacity a plan has to provide per sample.
int64_t MaxMaskLabels(int64_t length, double probability);

// Chooses floor(probability * n + u) of the n tokens that are not special (u
// uniform in [0, 1), so the expected share is exact), at least one if n > 0;
// of these 80% become the mask token, 10% a random ordinary token, 10% stay.
// Changes ids[0, length) and appends positions (ascending, plus `row`) and the
// tokens that stood there.
void MaskTokens(const MaskKey& key, double probability,
                const SpecialTokens& special, int32_t vocabulary_size,
                int32_t row, int32_t* ids, int32_t length,
                std::vector<int32_t>* label_rows, std::vector<int32_t>* labels);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_MASKING_H_
