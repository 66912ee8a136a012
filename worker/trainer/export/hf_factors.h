#ifndef COMERA_WORKER_TRAINER_EXPORT_HF_FACTORS_H_
#define COMERA_WORKER_TRAINER_EXPORT_HF_FACTORS_H_

#include <string>

#include "absl/status/status.h"

namespace comera::trainer {

// Writes the exported model of text in `from` into `to` for the transformers
// library, with its factors: tensors as they are, config.json, the tokenizer's
// files, and the Python modules that compute with the factors, which the
// library imports where it is called with trust_remote_code=True.
//
// Errors of ImportModel and LoadSavedTokenizer; FailedPrecondition: no model of
// text. Statuses of WriteFileAtomically.
absl::Status ExportFactorsToHuggingFace(const std::string& from,
                                        const std::string& to);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_HF_FACTORS_H_
