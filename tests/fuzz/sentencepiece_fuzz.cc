// Fuzzes SentencePiece models with any text: ids are in the vocabulary, and
// what they decode to is UTF-8.
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/sentencepiece_tokenizer.h"
#include "worker/trainer/data/tokenizer/text_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using comera::trainer::TextStream;
  comera::FuzzInput input(data, size);
  const auto tokenizer =
      comera::trainer::SentencePieceTokenizer::Parse(input.Part(), "m");
  if (!tokenizer.ok()) return 0;
  const std::string text = input.Rest();
  std::vector<int32_t> ids;
  (*tokenizer)->Encode(text, &ids);
  TextStream stream(tokenizer->get(), TextStream::Start::kText);
  std::string decoded;
  for (const int32_t id : ids) {
    if (id < 0 || id >= (*tokenizer)->vocabulary_size()) {
      comera::FuzzFailure("an id outside the vocabulary");
    }
    decoded += stream.Add(id);
  }
  if (!comera::trainer::IsValidUtf8(decoded + stream.Finish())) {
    comera::FuzzFailure("the decoded text is not UTF-8");
  }
  return 0;
}
