// Files of small tokenizers.
#ifndef COMERA_TESTS_WORKER_TRAINER_DATA_TOKENIZER_SMALL_FILES_H_
#define COMERA_TESTS_WORKER_TRAINER_DATA_TOKENIZER_SMALL_FILES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "worker/trainer/data/tokenizer/sentencepiece/model.pb.h"

namespace comera::trainer {

// A tokenizer.json: byte b is token b (as ByteCharacters()), the results of
// `merges` follow from 256, then the special token <|endoftext|>.
nlohmann::json SmallTokenizerJson(
    const std::vector<std::pair<std::string, std::string>>& merges);

// A SentencePiece BPE with <unk>, <s>, </s> (0 to 2) and `pieces` from 3 on,
// earlier ones with larger scores. Text stays as it is but for spaces, and one
// is put in front.
sentencepiece::ModelProto SmallSentencePieceModel(
    const std::vector<std::string>& pieces);

// Rules as a SentencePiece model has them (CharacterMap): what replaces each
// string. Strings and replacements have no zero bytes.
std::string SmallCharacterMap(const std::map<std::string, std::string>& rules);

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_DATA_TOKENIZER_SMALL_FILES_H_
