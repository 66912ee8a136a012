#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_BATCH_PADDING_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_BATCH_PADDING_H_

#include <cstdint>

namespace comera::trainer {

// How far training batches are padded, so that few shapes serve all of them.
//
// A captured step can be replayed for all batches of one shape. Counts that
// differ from batch to batch are therefore rounded up to one of few buckets:
// multiples of 64, each about an eighth above the one before, the last of them
// `most`.

// The lowest bucket that holds `count`, of 0 .. most; a count of 0 stays 0.
int64_t PaddedCount(int64_t count, int64_t most);

// How many padding sequences of at most `length` tokens a batch can need to be
// padded to the bucket `tokens`.
int64_t PaddingSequences(int64_t tokens, int64_t most, int64_t length);
// The largest PaddingSequences of all buckets.
int64_t MaxPaddingSequences(int64_t most, int64_t length);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_BATCH_PADDING_H_
