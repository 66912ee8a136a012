// Tests texts that grow beside each other.
#include "worker/trainer/generate/generator.h"

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/generate/letter_tokenizer.h"
#include "tests/worker/trainer/generate/random_decoder.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLength = 24;
constexpr int64_t kChunk = 4;  // tokens of prompts that a step takes

// Goes on by a second each time it is asked.
class TickingClock : public Clock {
 public:
  absl::Time Now() override { return now_ += absl::Seconds(1); }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

// A text as its pieces give it.
struct Text {
  std::string text;
  v1::GenerateResponse last;
  absl::Status error;
};

class GeneratorTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(/*slots=*/3); }

  void Open(int64_t slots, int64_t length = kLength, int64_t chunk = kChunk) {
    DecoderCase c;
    c.rank = 5;
    config_ = DecoderConfig(c, length);
    parameters_ = DecoderParameters(c, config_);
    Generator::Options options;
    options.decoder.max_slots = slots;
    options.decoder.chunk = chunk;
    options.clock = &clock_;
    ASSERT_OK_AND_ASSIGN(generator_,
                         Generator::Create(config_, parameters_.data(), options,
                                           tokenizer_.get(), backend_.get()));
  }

  static v1::GenerateRequest Request(const std::string& prompt, uint64_t seed,
                                     int max_tokens = 12) {
    v1::GenerateRequest request;
    request.set_prompt(prompt);
    request.set_seed(seed);
    request.set_max_tokens(max_tokens);
    return request;
  }

  // Steps until nothing grows, or so often.
  void Run(int steps = 1000) {
    for (; steps > 0 && !generator_->idle(); --steps) {
      std::vector<GeneratedPiece> pieces;
      ASSERT_OK(generator_->Step(&pieces));
      for (const GeneratedPiece& piece : pieces) {
        Text& text = texts_[piece.number];
        ASSERT_EQ(text.last.finish(), v1::GenerateResponse::FINISH_UNSPECIFIED)
            << "a piece after the last";
        if (!piece.response.ok()) {
          text.error = piece.response.status();
          continue;
        }
        text.text += piece.response->text();
        text.last = *piece.response;
      }
    }
  }

  // The text of one request alone.
  Text Alone(const v1::GenerateRequest& request) {
    texts_.clear();
    EXPECT_OK(generator_->Start(1, request));
    Run();
    return texts_[1];
  }

  TickingClock clock_;
  std::unique_ptr<LetterTokenizer> tokenizer_ =
      std::make_unique<LetterTokenizer>();
  ModelConfig config_;
  std::vector<float> parameters_;
  std::unique_ptr<kernels::Backend> backend_ = kernels::CreateCpuBackend({});
  std::unique_ptr<Generator> generator_;
  std::map<int64_t, Text> texts_;
};

TEST_F(GeneratorTest, TextsAreTheSameBesideOthers) {
  std::map<int64_t, v1::GenerateRequest> requests;
  std::map<int64_t, std::string> alone;
  for (int64_t i = 1; i <= 9; ++i) {
    requests[i] = Request(std::string(static_cast<size_t>(2 * i - 1), 'q'),
                          static_cast<uint64_t>(i), static_cast<int>(3 + i));
    alone[i] = Alone(requests[i]).text;
  }
  texts_.clear();
  // Some begin while others grow, and more than there are slots.
  for (int64_t i = 1; i <= 5; ++i) {
    ASSERT_OK(generator_->Start(i, requests[i]));
  }
  Run(3);
  for (int64_t i = 6; i <= 9; ++i) {
    ASSERT_OK(generator_->Start(i, requests[i]));
  }
  Run();
  EXPECT_EQ(texts_.size(), 9);
  for (const auto& [number, text] : texts_) {
    EXPECT_EQ(text.text, alone[number]) << number;
    EXPECT_NE(text.last.finish(), v1::GenerateResponse::FINISH_UNSPECIFIED);
  }
}

class LongPromptTest : public GeneratorTest {
 protected:
  static constexpr int kLong = 120;

  void SetUp() override {
    tokenizer_ = std::make_unique<LetterTokenizer>(/*ends=*/false);
    Open(/*slots=*/3, kLong + 60);
  }
  static v1::GenerateRequest Long(uint64_t seed, int max_tokens = 12) {
    return Request(std::string(kLong, 'q'), seed, max_tokens);
  }
};

// The clock counts the steps.
TEST_F(LongPromptTest, ATextGrowsByATokenEachStepOfAFewTokensOfThePrompt) {
  const std::string alone = Alone(Long(2)).text;
  texts_.clear();
  constexpr int kTokens = 50;
  ASSERT_OK(generator_->Start(1, Request("a", 1, kTokens)));
  ASSERT_OK(generator_->Start(2, Long(2)));
  Run();
  EXPECT_EQ(texts_[1].last.generated_tokens(), kTokens);
  EXPECT_EQ(texts_[1].last.generation_seconds(), kTokens - 1);
  EXPECT_EQ(texts_[2].last.first_token_seconds(), kLong / kChunk);
  EXPECT_LT(texts_[2].last.first_token_seconds(), kTokens);
  EXPECT_EQ(texts_[2].text, alone);
}

TEST_F(LongPromptTest, AShortPromptDoesNotWaitForLongOnes) {
  ASSERT_OK(generator_->Start(1, Long(1)));
  ASSERT_OK(generator_->Start(2, Long(2)));
  ASSERT_OK(generator_->Start(3, Request("abc", 3, 4)));
  Run();
  // A step computes at least one of its tokens.
  EXPECT_LE(texts_[3].last.first_token_seconds(), 3);
  // What it leaves goes to the others, which keep step with each other.
  for (const int64_t i : {1, 2}) {
    EXPECT_GE(texts_[i].last.first_token_seconds(), 2 * kLong / kChunk - 2);
    EXPECT_LE(texts_[i].last.first_token_seconds(), 2 * kLong / kChunk + 3);
  }
}

TEST_F(LongPromptTest, EveryPromptGoesOnWhereAStepTakesFewerThanThereAre) {
  Open(/*slots=*/3, kLong + 60, /*chunk=*/1);
  for (int64_t i = 1; i <= 3; ++i) ASSERT_OK(generator_->Start(i, Long(i)));
  Run();
  for (int64_t i = 1; i <= 3; ++i) {
    EXPECT_LE(texts_[i].last.first_token_seconds(), kLong + 3) << i;
  }
}

TEST_F(GeneratorTest, SeedsAndTemperatureMatter) {
  const std::string first = Alone(Request("ab", 1)).text;
  EXPECT_EQ(Alone(Request("ab", 1)).text, first);
  EXPECT_NE(Alone(Request("ab", 2)).text, first);
  v1::GenerateRequest greedy = Request("ab", 1);
  greedy.set_temperature(0);
  const std::string best = Alone(greedy).text;
  greedy.set_seed(2);
  EXPECT_EQ(Alone(greedy).text, best);
  greedy.clear_temperature();
  greedy.set_top_k(1);
  EXPECT_EQ(Alone(greedy).text, best);
}

TEST_F(GeneratorTest, LengthsEndTexts) {
  v1::GenerateRequest request = Request("abc", 3, 5);
  Text text = Alone(request);
  // Until the text has an end of its own, these are its lengths.
  while (text.last.finish() == v1::GenerateResponse::END_OF_TEXT) {
    request.set_seed(request.seed() + 1);
    text = Alone(request);
  }
  EXPECT_EQ(text.last.finish(), v1::GenerateResponse::LENGTH);
  EXPECT_EQ(text.last.prompt_tokens(), 3);
  EXPECT_EQ(text.last.generated_tokens(), 5);
  // Started at tick 1 of its own; every step is one more.
  EXPECT_EQ(text.last.first_token_seconds(), 1);
  EXPECT_EQ(text.last.generation_seconds(), 4);
  request.set_max_tokens(1000);
  for (int i = 0; i < 50; ++i) {
    request.set_seed(i);
    text = Alone(request);
    if (text.last.finish() != v1::GenerateResponse::LENGTH) continue;
    EXPECT_EQ(text.last.generated_tokens(), kLength - 3);
    return;
  }
  FAIL() << "every text ended early";
}

TEST_F(GeneratorTest, TheEndOfTextEndsTexts) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Text text = Alone(Request("", seed, 20));
    if (text.last.finish() != v1::GenerateResponse::END_OF_TEXT) continue;
    EXPECT_EQ(text.last.prompt_tokens(), 1);
    EXPECT_LE(text.last.generated_tokens(), 20);
    EXPECT_THAT(text.text, ::testing::Not(HasSubstr("<end>")));
    return;
  }
  FAIL() << "no text ended";
}

TEST_F(GeneratorTest, StopTextsEndTexts) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  v1::GenerateRequest request;
  std::string whole, stop;
  // A text with two letters in its middle, so that tokens are held back.
  for (uint64_t seed = 0; stop.empty(); ++seed) {
    ASSERT_LT(seed, 100);
    request = Request("ab", seed);
    whole = Alone(request).text;
    for (size_t i = 3; i + 3 < whole.size() && stop.empty(); ++i) {
      if (letter(whole[i]) && letter(whole[i + 1])) stop = whole.substr(i, 2);
    }
  }
  request.add_stop(stop);
  const Text text = Alone(request);
  EXPECT_EQ(text.text, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(text.last.finish(), v1::GenerateResponse::STOP);
  EXPECT_LT(text.last.generated_tokens(), 12);
  // What only begins like a stop text is told in the end.
  request.clear_stop();
  request.add_stop(stop + "never");
  EXPECT_EQ(Alone(request).text, whole);
}

TEST_F(GeneratorTest, CancelledTextsMakeRoom) {
  Open(/*slots=*/1);
  for (int64_t i = 1; i <= 4; ++i) {
    ASSERT_OK(generator_->Start(i, Request("ab", i, 20)));
  }
  Run(2);
  generator_->Cancel(1);  // grows
  generator_->Cancel(3);  // waits
  generator_->Cancel(77);
  const size_t before = texts_[1].text.size();
  Run();
  EXPECT_EQ(texts_[1].text.size(), before);
  EXPECT_EQ(texts_.count(3), 0);
  for (int64_t i : {2, 4}) {
    EXPECT_NE(texts_[i].last.finish(),
              v1::GenerateResponse::FINISH_UNSPECIFIED);
  }
  generator_->Cancel(2);
  EXPECT_TRUE(generator_->idle());
}

TEST_F(GeneratorTest, RefusesWhatIsTooMuch) {
  EXPECT_THAT(generator_->Start(1, Request(std::string(kLength, 'a'), 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("prompt: 24 tokens")));
  EXPECT_TRUE(generator_->idle());
  const int64_t most = generator_->slots() + Generator::kMaxWaiting;
  for (int64_t i = 1; i <= most; ++i) {
    ASSERT_OK(generator_->Start(i, Request("a", 1)));
  }
  EXPECT_THAT(
      generator_->Start(1, Request("a", 1)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("number: 1")));
  EXPECT_THAT(generator_->Start(most + 1, Request("a", 1)),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(GeneratorTest, AModelThatDivergedEndsItsTexts) {
  for (float& p : parameters_) p = std::numeric_limits<float>::quiet_NaN();
  ASSERT_OK(generator_->Start(1, Request("a", 1)));
  Run();
  EXPECT_TRUE(generator_->idle());
  EXPECT_THAT(texts_[1].error, StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace comera::trainer
