// Fuzzes tokenizer.json files with any text: ids are in the vocabulary, and
// they decode in pieces as at once.
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/tokenizer/hugging_face_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  const auto tokenizer =
      comera::trainer::HuggingFaceTokenizer::Parse(input.Part(), "t.json");
  if (!tokenizer.ok()) return 0;
  const std::string text = input.Rest();
  std::vector<int32_t> ids;
  (*tokenizer)->Encode(text, &ids);
  std::string joined;
  for (const int32_t id : ids) {
    if (id < 0 || id >= (*tokenizer)->vocabulary_size()) {
      comera::FuzzFailure("an id outside the vocabulary");
    }
    (*tokenizer)->AppendBytes(id, &joined);
  }
  if ((*tokenizer)->Decode(ids) != joined) {
    comera::FuzzFailure("decoding at once and in pieces differ");
  }
  return 0;
}
