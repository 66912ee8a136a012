// Byte-level BPE: splits a text into words and merges their bytes.
#include "worker/trainer/data/tokenizer/byte_bpe_tokenizer.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/tokenizer/byte_level.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<ByteBpeTokenizer>> ByteBpeTokenizer::Create(
    BytePairVocabulary vocabulary) {
  const std::vector<std::string>& tokens = vocabulary.tokens;
  absl::flat_hash_map<absl::string_view, int32_t> ids;
  for (size_t id = 0; id < tokens.size(); ++id) {
    ids.emplace(tokens[id], static_cast<int32_t>(id));
  }
  SpecialTokens special;
  for (auto [name, id] :
       {std::pair<absl::string_view, int32_t*>{"<s>", &special.cls},
        {"<pad>", &special.pad},
        {"</s>", &special.sep},
        {"<unk>", &special.unk},
        {"<mask>", &special.mask}}) {
    const auto found = ids.find(name);
    if (found == ids.end()) {
      return absl::DataLossError(
          absl::StrCat("the vocabulary lacks the special token ", name));
    }
    *id = found->second;
  }
  std::array<int32_t, 256> byte_ids;
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(ByteCharacters()[byte]);
    byte_ids[byte] = found == ids.end() ? special.unk : found->second;
  }
  return absl::WrapUnique(
      new ByteBpeTokenizer(std::move(vocabulary), special, byte_ids));
}

ByteBpeTokenizer::ByteBpeTokenizer(BytePairVocabulary vocabulary,
                                   const SpecialTokens& special,
                                   const std::array<int32_t, 256>& byte_ids)
    : vocabulary_(std::move(vocabulary)),
      special_(special),
      merger_(vocabulary_.merges, byte_ids) {}

void ByteBpeTokenizer::Encode(absl::string_view text,
                              std::vector<int32_t>* ids) {
  WordSplitter splitter(text);
  absl::string_view word;
  while (splitter.Next(&word)) merger_.Append(word, ids);
}

void ByteBpeTokenizer::AppendBytes(int32_t id, std::string* bytes) const {
  if (!special_.Contains(id)) AppendTokenBytes(vocabulary_.tokens[id], bytes);
}

absl::Status ByteBpeTokenizer::Save(const std::string& directory) const {
  RETURN_IF_ERROR(WriteFileAtomically(directory + "/vocab.json",
                                      VocabularyJson(vocabulary_)));
  RETURN_IF_ERROR(
      WriteFileAtomically(directory + "/merges.txt", MergesText(vocabulary_)));
  return WriteFileAtomically(directory + "/tokenizer_config.json",
                             "{\"tokenizer_class\": \"RobertaTokenizer\"}\n");
}

}  // namespace comera::trainer
