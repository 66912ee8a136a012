// Buckets that the counts of a batch are padded to.
#include "worker/trainer/model/plan/batch_padding.h"

#include <algorithm>

namespace comera::trainer {
namespace {

constexpr int64_t kMultiple = 64;  // row counts that kernels run well

int64_t NextBucket(int64_t bucket, int64_t most) {
  const int64_t eighth =
      (bucket + bucket / 8 + kMultiple - 1) / kMultiple * kMultiple;
  return std::min(std::max(bucket + kMultiple, eighth), most);
}

int64_t SequencesBetween(int64_t below, int64_t bucket, int64_t length) {
  return (bucket - below - 1 + length - 1) / length;
}

}  // namespace

int64_t PaddedCount(int64_t count, int64_t most) {
  int64_t bucket = 0;
  while (bucket < count) bucket = NextBucket(bucket, most);
  return bucket;
}

int64_t PaddingSequences(int64_t tokens, int64_t most, int64_t length) {
  int64_t below = 0;
  for (int64_t bucket = 0; bucket < tokens; bucket = NextBucket(bucket, most)) {
    below = bucket;
  }
  return tokens > 0 ? SequencesBetween(below, tokens, length) : 0;
}

int64_t MaxPaddingSequences(int64_t most, int64_t length) {
  int64_t sequences = 0;
  for (int64_t below = 0; below < most;) {
    const int64_t bucket = NextBucket(below, most);
    sequences = std::max(sequences, SequencesBetween(below, bucket, length));
    below = bucket;
  }
  return sequences;
}

}  // namespace comera::trainer
