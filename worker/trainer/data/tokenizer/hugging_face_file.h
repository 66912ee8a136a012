#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_HUGGING_FACE_FILE_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_HUGGING_FACE_FILE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/added_tokens.h"
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"

namespace comera::trainer {

// What a tokenizer.json of the tokenizers library says, if it is a byte-level
// BPE.
struct HuggingFaceFile {
  // Tokens and merges; the added tokens' contents are among the tokens.
  BytePairVocabulary vocabulary;
  std::vector<AddedToken> added_tokens;
  // Token of each byte.
  std::array<int32_t, 256> byte_ids;
  // Text, and text behind an added token, gets a space in front if it has none.
  bool add_prefix_space = false;
  // Text is cut into words before its bytes are merged.
  bool use_regex = true;
  // model.unk_token, -1 if there is none.
  int32_t unknown = -1;
};

// Reads `json`; `name` is for messages, which name the member at fault.
// `truncation`, `padding` and `post_processor` concern samples, not texts, and
// are not read. DataLoss: malformed, ids with gaps, a merge of or into absent
// tokens. InvalidArgument: a kind of tokenizer that is not supported.
absl::StatusOr<HuggingFaceFile> ParseHuggingFaceFile(absl::string_view json,
                                                     const std::string& name);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_HUGGING_FACE_FILE_H_
