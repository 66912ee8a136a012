#ifndef COMERA_WORKER_TRAINER_EXPORT_GGUF_EXPORT_H_
#define COMERA_WORKER_TRAINER_EXPORT_GGUF_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "worker/trainer/export/gguf_numbers.h"

namespace comera::trainer {

inline constexpr char kGgufFile[] = "model.gguf";

// Writes the exported causal language model in `from` into the folder `to` as
// a GGUF file for llama.cpp and what is built on it: dense matrices of
// `weights`, sizes, and the vocabulary.
//
// Errors of ImportModel, AddVocabulary and AddDecoderWeights;
// FailedPrecondition: no causal language model, or a layer without a dense
// form. Statuses of WriteFileAtomically.
absl::Status ExportToGguf(const std::string& from, GgufNumber weights,
                          const std::string& to);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_GGUF_EXPORT_H_
