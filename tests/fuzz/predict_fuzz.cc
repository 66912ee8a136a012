// Fuzzes requests to comera-trainer --serve, their rows as an encoder reads
// them, and the description of rows beside a model.
#include <memory>
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"
#include "worker/trainer/predict/serve.h"
#include "worker/trainer/predict/text_rows.h"

namespace comera::trainer {
namespace {

constexpr int32_t kLength = 8;

void Check(bool good, const char* what) {
  if (!good) FuzzFailure(what);
}

void Encode(const v1::PredictRow& row) {
  static Tokenizer* const tokenizer =
      WordpieceTokenizer::Parse(
          "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nc\n", "vocab.txt", true)
          ->release();
  for (const char* mask : {"", "[MASK]"}) {
    TextRows rows(tokenizer, kLength, mask);
    const absl::StatusOr<TextSample> sample = rows.Encode(row);
    if (!sample.ok()) continue;
    const auto size = static_cast<int32_t>(sample->ids.size());
    Check(size >= 2 && size <= kLength, "a sample of another length");
    Check(sample->second_start >= 0 && sample->second_start <= size,
          "a second text outside the sample");
    for (const int32_t id : sample->ids) {
      Check(id >= 0 && id < tokenizer->vocabulary_size(), "an id outside");
    }
    for (const int32_t at : sample->masks) {
      Check(at >= 0 && at < size && sample->ids[at] == 4, "no mask there");
    }
    Batch batch;
    ClearBatch(1, kLength, 0, &batch);
    PutSample(*sample, 0, /*segments=*/true, &batch);
  }
}

}  // namespace
}  // namespace comera::trainer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  const bool request = input.Choose(2) == 0;
  const std::string text(input.Rest());
  if (!request) {
    (void)comera::trainer::ParseInputFormat(text, "inputs.json");
    return 0;
  }
  const auto parsed = comera::trainer::ParsePredictRequest(text);
  if (!parsed.ok()) return 0;
  for (const auto& row : parsed->rows()) comera::trainer::Encode(row);
  // A request that was parsed can be written and parsed again.
  const auto again = comera::trainer::ParsePredictRequest(
      comera::trainer::PredictLine(*parsed));
  if (!again.ok()) comera::FuzzFailure("a request that cannot be told");
  return 0;
}
