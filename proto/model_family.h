// Questions about a model that its family and architecture answer. All of them
// take specifications with or without their defaults.
#ifndef COMERA_PROTO_MODEL_FAMILY_H_
#define COMERA_PROTO_MODEL_FAMILY_H_

#include <cstdint>

#include "comera/v1/job.pb.h"

namespace comera {

// Whether the model predicts tokens: MASKED_LM and CAUSAL_LM.
bool IsLanguageModel(const v1::ModelSpec& model);

// Whether the model is a decoder of the architecture; LLAMA is the default.
bool IsLlama(const v1::ModelSpec& model);
bool IsGpt2(const v1::ModelSpec& model);

// The outputs of the key and value projections: with LLAMA's kv_heads fewer
// than hidden.
int64_t KvWidth(const v1::ModelSpec& model);

// Whether the word embedding's table is also the projection to the vocabulary.
bool TiesOutput(const v1::ModelSpec& model);

// Whether there is a layer "output" of its own: that of a language model which
// does not tie it.
bool HasOutputLayer(const v1::ModelSpec& model);

// Whether there is a layer "head": a classifier's fc1 or a masked LM's
// transform.
bool HasHeadLayer(const v1::ModelSpec& model);

// The widest head that the attention kernels for GPUs take, in columns.
inline constexpr int64_t kMostGpuHeadWidth = 128;

// Columns of an attention head; 0 for models without attention.
int64_t HeadWidth(const v1::ModelSpec& model);

}  // namespace comera

#endif  // COMERA_PROTO_MODEL_FAMILY_H_
