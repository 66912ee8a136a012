// Tokenizers as the transformers library keeps them.
#ifndef COMERA_WORKER_TRAINER_EXPORT_HF_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_EXPORT_HF_TOKENIZER_H_

#include <string>

#include "absl/status/status.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Writes the tokenizer into the existing folder `to`: the files of
// Tokenizer::Save, and beside them tokenizer.json, which the tokenizers library
// reads, for WordPiece, byte-level BPE and characters. HUGGING_FACE saves one
// itself; a SentencePiece model stays tokenizer.model alone, since a
// tokenizer.json cuts some texts otherwise.
//
// The library gives every text the ids that `tokenizer` gives it, except that
// names of special tokens in a text are those tokens. An encoder's texts get
// [CLS] and [SEP], or <s> and </s>, around them; a decoder's (`causal`)
// nothing.
//
// Errors of Tokenizer::Save and FindSavedTokenizer; DataLoss: a saved file is
// not as it was written.
absl::Status WriteHuggingFaceTokenizer(const Tokenizer& tokenizer, bool causal,
                                       const std::string& to);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_HF_TOKENIZER_H_
