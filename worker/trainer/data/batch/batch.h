#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_BATCH_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_BATCH_H_

#include <cstdint>
#include <vector>

namespace comera::trainer {

// Samples on the host, the share of one member: tokens padded to one length, or
// rows of a click log.
struct Batch {
  int64_t size = 0;    // B, samples
  int64_t length = 0;  // L, tokens per sample
  // Index of sample 0 within the step's global batch: random numbers of a
  // sample depend on this index and not on the number of members.
  int64_t first_sample = 0;
  // (B) the same index of every sample, ascending, where samples are dealt by
  // their lengths; empty: they follow one another from first_sample on.
  std::vector<int32_t> samples;
  // Samples of the global batch; 0: this is all of it.
  int64_t global_size = 0;

  // The index of sample i within the global batch.
  int64_t SampleAt(int64_t i) const {
    return samples.empty() ? first_sample + i : samples[i];
  }

  std::vector<int32_t> ids;  // (B, L)
  // (B, L): of a pair, 0 and 1; causal LM: the number of the token's document
  // within its row, from 0.
  std::vector<int32_t> segments;
  std::vector<float> mask;  // (B, L), 1 token, 0 padding

  // Where the loss is taken, as rows of (B * L), ascending, and what is right
  // there: token ids (masked LM, or the next one of the document for causal LM)
  // or classes at [CLS] (classifier). A causal batch whose documents are of one
  // token each has none.
  std::vector<int32_t> label_rows;  // (P)
  std::vector<int32_t> labels;      // (P)

  // Click logs have these instead of tokens, one label a sample (0 or 1) and a
  // length of 1; see ClickShape.
  std::vector<float> dense;         // (B, dense features)
  std::vector<int32_t> categories;  // (tables, B), rows of each table
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_BATCH_H_
