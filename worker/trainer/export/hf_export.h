#ifndef COMERA_WORKER_TRAINER_EXPORT_HF_EXPORT_H_
#define COMERA_WORKER_TRAINER_EXPORT_HF_EXPORT_H_

#include <string>

#include "absl/status/status.h"

namespace comera::trainer {

// Writes the exported model in `from` into `to` as the transformers library
// keeps such a one: dense weights in model.safetensors, config.json, and the
// tokenizer's files. A classifier is a BertForSequenceClassification
// (WordPiece) or Roberta's (byte-level BPE), a masked LM a BertForMaskedLM or
// Roberta's. A causal LM is a LlamaForCausalLM or GPT2LMHeadModel and has a
// generation_config.json.
//
// Errors of ImportModel and LoadSavedTokenizer; FailedPrecondition: no model of
// text, or a layer without a dense form. Statuses of WriteFileAtomically.
absl::Status ExportToHuggingFace(const std::string& from,
                                 const std::string& to);

// Writes the exported model in `from` as one of the same format without
// factors, tokenizer included.
absl::Status ExportDense(const std::string& from, const std::string& to);

// The files beside a model that say how rows are read: copied where they are.
absl::Status CopyTokenizer(const std::string& from, const std::string& to);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_HF_EXPORT_H_
