// Vocabularies as llama.cpp keeps them.
#ifndef COMERA_WORKER_TRAINER_EXPORT_GGUF_VOCABULARY_H_
#define COMERA_WORKER_TRAINER_EXPORT_GGUF_VOCABULARY_H_

#include <string>

#include "absl/status/status.h"
#include "worker/trainer/export/gguf_file.h"

namespace comera::trainer {

// Adds the tokenizer that Tokenizer::Save left in the folder `from`, if
// llama.cpp has one that cuts texts into the same tokens:
//
//   byte-level BPE    "gpt2"
//   SentencePiece     "llama" (BPE with byte fallback, text as it is) or "t5"
//                     (unigram without)
//   characters        "t5", where a run of unknown characters is one token
//
// No tokens are put around a text. Errors of LoadSavedTokenizer;
// FailedPrecondition: llama.cpp has no such tokenizer.
absl::Status AddVocabulary(const std::string& from, GgufFile* file);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_GGUF_VOCABULARY_H_
