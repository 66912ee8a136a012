#ifndef COMERA_WORKER_TRAINER_EXPORT_ONNX_EXPORT_H_
#define COMERA_WORKER_TRAINER_EXPORT_ONNX_EXPORT_H_

#include <string>

#include "absl/status/status.h"

namespace comera::trainer {

inline constexpr char kOnnxFile[] = "model.onnx";

// Writes the exported model of text in `from` into `to` as an ONNX graph
// (operator set 17), beside the tokenizer's files. Inputs of an encoder:
// input_ids, attention_mask and, where the model has segments, token_type_ids,
// all int64 (batch, length). Output: logits (batch, classes) or (batch, length,
// vocabulary). A causal language model's are those of BuildOnnxDecoder, with
// the keys and values of earlier tokens.
//
// The file holds the tensor-train cores, so it is as small as the model. A
// linear layer's cores are contracted to two thin matrices by nodes that depend
// on no input, which a runtime folds once when it loads; a row of the word
// embedding is made of the slices of its token alone.
//
// Errors of ImportModel and LoadSavedTokenizer; FailedPrecondition: no model
// of text, or larger than a protobuf may be (2 GiB). Statuses of
// WriteFileAtomically.
absl::Status ExportToOnnx(const std::string& from, const std::string& to);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_ONNX_EXPORT_H_
