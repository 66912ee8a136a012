// Tests the limits of requests.
#include "worker/trainer/generate/generation_request.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/generate/letter_tokenizer.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(GenerationRequestTest, DefaultsAreFilledIn) {
  LetterTokenizer tokenizer;
  v1::GenerateRequest request;
  request.set_prompt("ab");
  ASSERT_OK_AND_ASSIGN(const GenerationRequest checked,
                       CheckGenerateRequest(request, 10, &tokenizer));
  EXPECT_THAT(checked.prompt, ElementsAre(0, 1));
  EXPECT_FALSE(checked.begins_text);
  EXPECT_EQ(checked.max_tokens, 128);
  EXPECT_EQ(checked.sampling.temperature, 1);
  EXPECT_EQ(checked.sampling.top_k, 0);
  EXPECT_EQ(checked.sampling.top_p, 1);
  EXPECT_THAT(checked.stop, IsEmpty());
}

TEST(GenerationRequestTest, AnEmptyPromptBeginsAText) {
  LetterTokenizer ends, endless(/*ends=*/false);
  // A prompt without a token is as good as empty.
  for (const char* prompt : {"", "?!"}) {
    v1::GenerateRequest request;
    request.set_prompt(prompt);
    ASSERT_OK_AND_ASSIGN(const GenerationRequest checked,
                         CheckGenerateRequest(request, 10, &ends));
    EXPECT_THAT(checked.prompt, ElementsAre(LetterTokenizer::kEnd));
    EXPECT_TRUE(checked.begins_text);
    EXPECT_THAT(
        CheckGenerateRequest(request, 10, &endless),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prompt: ")));
  }
}

TEST(GenerationRequestTest, LimitsAreNamed) {
  LetterTokenizer tokenizer;
  using Change = std::function<void(v1::GenerateRequest*)>;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<Change, std::string>> refused = {
      {[](auto* r) { r->set_prompt("aaaaaaaaaa"); },
       "prompt: 10 tokens, more "
       "than 9"},
      {[](auto* r) { r->set_prompt("\xff"); }, "prompt: not UTF-8"},
      {[](auto* r) { r->set_prompt(std::string(100000, '?')); },
       "prompt: 100000 bytes, more than"},
      {[](auto* r) { r->set_max_tokens(-1); }, "max_tokens: -1"},
      {[](auto* r) { r->set_max_tokens(65537); }, "max_tokens: 65537"},
      {[](auto* r) { r->set_temperature(-0.5); }, "temperature: -0.5"},
      {[=](auto* r) { r->set_temperature(nan); }, "temperature: nan"},
      {[=](auto* r) { r->set_temperature(infinity); }, "temperature: inf"},
      {[](auto* r) { r->set_top_k(-1); }, "top_k: -1"},
      {[](auto* r) { r->set_top_p(0); }, "top_p: 0"},
      {[](auto* r) { r->set_top_p(1.5); }, "top_p: 1.5"},
      {[=](auto* r) { r->set_top_p(nan); }, "top_p: nan"},
      {[](auto* r) { r->add_stop(""); }, "stop: empty"},
      {[](auto* r) { r->add_stop(std::string(257, 'x')); }, "stop: 257 bytes"},
      {[](auto* r) { r->add_stop("\xff"); }, "stop: not UTF-8"},
      {[](auto* r) {
         for (int i = 0; i < 17; ++i) r->add_stop("x");
       },
       "stop: 17 texts"},
  };
  for (const auto& [change, message] : refused) {
    v1::GenerateRequest request;
    request.set_prompt("a");
    change(&request);
    EXPECT_THAT(
        CheckGenerateRequest(request, 10, &tokenizer),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

TEST(GenerationRequestTest, TheLimitsThemselvesAreTaken) {
  LetterTokenizer tokenizer;
  v1::GenerateRequest request;
  request.set_prompt("aaaaaaaaa");
  request.set_max_tokens(65536);
  request.set_temperature(0);
  request.set_top_p(1);
  for (int i = 0; i < 16; ++i) request.add_stop(std::string(256, 'x'));
  EXPECT_OK(CheckGenerateRequest(request, 10, &tokenizer).status());
}

}  // namespace
}  // namespace comera::trainer
