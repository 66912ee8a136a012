// Causal language models as ONNX graphs.
#ifndef COMERA_WORKER_TRAINER_EXPORT_ONNX_DECODER_H_
#define COMERA_WORKER_TRAINER_EXPORT_ONNX_DECODER_H_

#include "worker/trainer/export/onnx.pb.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {

// The graph of a decoder that computes some tokens behind those whose keys and
// values are given. Inputs and outputs have the names and shapes that the
// transformers library's exporters use:
//
//   input_ids                     (batch, length) int64
//   attention_mask                (batch, past + length) int64; 0: padding
//   position_ids                  (batch, length) int64
//   past_key_values.I.key, value  (batch, kv heads, past, head width)
//
//   logits                        (batch, length, vocabulary)
//   present.I.key, value          (batch, kv heads, past + length, head width)
//
// `past` may be 0. Keys are kept with their positions turned in.
onnx::ModelProto BuildOnnxDecoder(const ImportedModel& model);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_ONNX_DECODER_H_
