#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_SAMPLE_BUILDER_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_SAMPLE_BUILDER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/trainer/data/batch/sample_set.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Tokenises all parts of a corpus. A pair is one sample: [CLS] a [SEP] b [SEP]
// (RoBERTa: <s> a </s></s> b </s>), cut from the end of the longer side to
// max_length. A sentence is one sample, [CLS] a [SEP], cut at its end. A
// document is cut into consecutive windows of max_length tokens, each <s> ...
// </s>. `needs_ordinary` (masked LM): samples of special tokens alone are left
// out, because nothing in them can be predicted. max_length in [8, 65535].
// DataLoss: a part without samples.
absl::StatusOr<SampleSets> BuildSamples(
    const Corpus& corpus, int32_t max_length, bool needs_ordinary,
    Tokenizer* tokenizer,
    const std::function<void(const std::string&)>& on_activity);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_SAMPLE_BUILDER_H_
