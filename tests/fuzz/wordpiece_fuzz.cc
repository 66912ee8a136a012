// Fuzzes BERT vocabularies with any text: ids must be in the vocabulary.
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  const bool lowercase = input.Choose(2) == 1;
  const std::string vocabulary = input.Part();
  auto tokenizer = comera::trainer::WordpieceTokenizer::Parse(
      vocabulary, "vocab.txt", lowercase);
  if (!tokenizer.ok()) return 0;
  std::vector<int32_t> ids;
  (*tokenizer)->Encode(input.Rest(), &ids);
  for (int32_t id : ids) {
    if (id < 0 || id >= (*tokenizer)->vocabulary_size()) {
      comera::FuzzFailure("an id outside the vocabulary");
    }
  }
  return 0;
}
