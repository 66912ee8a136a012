// Fuzzes RoBERTa vocabularies and merges with any text: decoding must give back
// what was encoded.
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/tokenizer/byte_bpe_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  const std::string vocabulary = input.Part();
  const std::string merges = input.Part();
  auto parsed = comera::trainer::ParseBytePairVocabulary(
      vocabulary, "vocab.json", merges, "merges.txt");
  if (!parsed.ok()) return 0;
  auto tokenizer =
      comera::trainer::ByteBpeTokenizer::Create(*std::move(parsed));
  if (!tokenizer.ok()) return 0;
  const std::string text = input.Rest();
  std::vector<int32_t> ids;
  (*tokenizer)->Encode(text, &ids);
  bool known = true;
  for (int32_t id : ids) {
    if (id < 0 || id >= (*tokenizer)->vocabulary_size()) {
      comera::FuzzFailure("an id outside the vocabulary");
    }
    known = known && id != (*tokenizer)->special_tokens().unk;
  }
  if (known && (*tokenizer)->Decode(ids) != text) {
    comera::FuzzFailure("decoding does not give the text back");
  }
  return 0;
}
