// Prints the ids that a tokenizer gives texts: for tests of other readers.
//
//   encode_texts {vocab.txt [cased] | vocab.json merges.txt |
//                 tokenizer.json | tokenizer.model} < TEXTS
//
// TEXTS: one a line, in hexadecimal. Output: a line of ids for each.
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/trainer/data/tokenizer/byte_bpe_tokenizer.h"
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"
#include "worker/trainer/data/tokenizer/hugging_face_tokenizer.h"
#include "worker/trainer/data/tokenizer/sentencepiece_tokenizer.h"
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"

namespace comera::trainer {
namespace {

absl::StatusOr<std::unique_ptr<Tokenizer>> Open(
    const std::vector<std::string>& arguments) {
  if (absl::EndsWith(arguments[0], ".txt")) {
    return WordpieceTokenizer::Load(arguments[0],
                                    /*lowercase=*/arguments.size() == 1);
  }
  if (absl::EndsWith(arguments[0], ".model")) {
    return SentencePieceTokenizer::Load(arguments[0]);
  }
  if (arguments.size() == 1) return HuggingFaceTokenizer::Load(arguments[0]);
  ASSIGN_OR_RETURN(BytePairVocabulary vocabulary,
                   LoadBytePairVocabulary(arguments[0], arguments[1]));
  return ByteBpeTokenizer::Create(std::move(vocabulary));
}

int Run(const std::vector<std::string>& arguments) {
  const auto tokenizer = Open(arguments);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    std::vector<int32_t> ids;
    (*tokenizer)->Encode(absl::HexStringToBytes(line), &ids);
    std::cout << absl::StrJoin(ids, " ") << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace comera::trainer

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: encode_texts {vocab.txt [cased] | vocab.json "
                 "merges.txt | tokenizer.json | tokenizer.model}\n";
    return 2;
  }
  return comera::trainer::Run(std::vector<std::string>(argv + 1, argv + argc));
}
