#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_BASIC_WORDS_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_BASIC_WORDS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace comera::trainer {

// BERT's basic tokenisation: `text` with control characters removed, every CJK
// character and punctuation mark a word of its own and, with `lowercase`, lower
// case and without accents (NFD, non-spacing marks dropped). The result is
// UTF-8 with words separated by one or more spaces. Bytes that are not UTF-8
// are dropped.
std::string BasicWords(absl::string_view text, bool lowercase);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_BASIC_WORDS_H_
