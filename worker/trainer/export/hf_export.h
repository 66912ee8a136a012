#ifndef COMERA_WORKER_TRAINER_EXPORT_HF_EXPORT_H_
#define COMERA_WORKER_TRAINER_EXPORT_HF_EXPORT_H_

#include <string>

#include "absl/status/status.h"

namespace comera::trainer {

// Writes the exported model in `from` into `to` as the transformers library
// keeps a BERT (WordPiece) or RoBERTa (byte-level BPE): dense weights in
// model.safetensors, config.json, and the tokenizer's files. A classifier is a
// BertForSequenceClassification, a masked LM a BertForMaskedLM, or Roberta's.
//
// Errors of ImportModel and LoadSavedTokenizer; FailedPrecondition: no encoder,
// or a layer without a dense form. Statuses of WriteFileAtomically.
absl::Status ExportToHuggingFace(const std::string& from,
                                 const std::string& to);

// Writes the exported model in `from` as one of the same format without
// factors, tokenizer included.
absl::Status ExportDense(const std::string& from, const std::string& to);

// The files beside a model that say how rows are read: copied where they are.
absl::Status CopyTokenizer(const std::string& from, const std::string& to);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_HF_EXPORT_H_
