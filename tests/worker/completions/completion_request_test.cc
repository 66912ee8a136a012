// Reads requests of OpenAI's completions API, good and bad.

#include "worker/completions/completion_request.h"

#include <cstdint>
#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A request with these fields beside the required ones.
absl::StatusOr<CompletionRequest> With(const std::string& fields) {
  return ParseCompletionRequest(
      R"({"model": "jobs/a/models/m", "prompt": "Hi")" +
      (fields.empty() ? "" : ", " + fields) + "}");
}

TEST(CompletionRequestTest, DefaultsAreOpenAis) {
  ASSERT_OK_AND_ASSIGN(const CompletionRequest request, With(""));
  EXPECT_EQ(request.generate.name(), "jobs/a/models/m");
  EXPECT_EQ(request.generate.prompt(), "Hi");
  EXPECT_EQ(request.generate.max_tokens(), 16);
  EXPECT_FALSE(request.generate.has_temperature());
  EXPECT_FALSE(request.generate.has_top_p());
  EXPECT_FALSE(request.stream || request.echo || request.include_usage);
  // Requests without a seed differ.
  ASSERT_OK_AND_ASSIGN(const CompletionRequest other, With(""));
  ASSERT_OK_AND_ASSIGN(const CompletionRequest third, With(""));
  EXPECT_TRUE(request.generate.seed() != other.generate.seed() ||
              request.generate.seed() != third.generate.seed());
}

TEST(CompletionRequestTest, AllFieldsAreRead) {
  ASSERT_OK_AND_ASSIGN(
      const CompletionRequest request,
      With(R"("max_tokens": 65536, "temperature": 0, "top_p": 0.5, "top_k": 7,
              "seed": 18446744073709551615, "stop": ["\n", "end"],
              "stream": true, "stream_options": {"include_usage": true},
              "echo": true, "user": "me")"));
  EXPECT_EQ(request.generate.max_tokens(), 65536);
  EXPECT_TRUE(request.generate.has_temperature());
  EXPECT_EQ(request.generate.temperature(), 0);
  EXPECT_EQ(request.generate.top_p(), 0.5);
  EXPECT_EQ(request.generate.top_k(), 7);
  EXPECT_EQ(request.generate.seed(), UINT64_MAX);
  EXPECT_THAT(request.generate.stop(), ElementsAre("\n", "end"));
  EXPECT_TRUE(request.stream && request.echo && request.include_usage);
  ASSERT_OK_AND_ASSIGN(const CompletionRequest one, With(R"("stop": "x")"));
  EXPECT_THAT(one.generate.stop(), ElementsAre("x"));
  ASSERT_OK_AND_ASSIGN(const CompletionRequest minus, With(R"("seed": -1)"));
  EXPECT_EQ(minus.generate.seed(), UINT64_MAX);
}

TEST(CompletionRequestTest, WhatChangesNothingMayBeSaid) {
  EXPECT_OK(With(R"("n": 1, "best_of": 1, "frequency_penalty": 0.0,
                    "presence_penalty": 0, "logit_bias": {}, "logprobs": null,
                    "suffix": "", "stop": null, "max_tokens": null,
                    "seed": null, "stream": null)"));
}

TEST(CompletionRequestTest, WrongFieldsAreNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"n", "2"},
      {"n", "\"1\""},
      {"best_of", "3"},
      {"frequency_penalty", "0.5"},
      {"presence_penalty", "-1"},
      {"logit_bias", R"({"50256": -100})"},
      {"logprobs", "0"},
      {"suffix", "\"x\""},
      {"max_tokens", "0"},
      {"max_tokens", "65537"},
      {"max_tokens", "-1"},
      {"max_tokens", "1.5"},
      {"max_tokens", "99999999999999999999"},
      {"max_tokens", "\"5\""},
      {"temperature", "-0.1"},
      {"temperature", "true"},
      {"top_p", "0"},
      {"top_p", "1.01"},
      {"top_k", "-1"},
      {"top_k", "1073741825"},
      {"seed", "0.5"},
      {"seed", "18446744073709551616"},
      {"stop", "\"\""},
      {"stop", "[5]"},
      {"stop", "{}"},
      {"stream", "1"},
      {"stream_options", R"({"include_usage": true})"},
      {"stream_options", R"({"other": true})"},
      {"stream_options", "true"},
      {"echo", "\"yes\""},
      {"user", "5"},
      {"model", "5"},
      {"prompt", R"(["a", "b"])"},
      {"prompt", "[1, 2]"},
      {"prompt", "null"},
      {"functions", "[]"},
  };
  for (const auto& [field, value] : wrong) {
    EXPECT_THAT(With("\"" + std::string(field) + "\": " + value),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         StartsWith(std::string(field) + ": ")))
        << field << " " << value;
  }
  std::string many = "\"a\"";
  for (int i = 0; i < 16; ++i) many += ", \"a\"";
  EXPECT_THAT(
      With("\"stop\": [" + many + "]"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 16")));
  EXPECT_THAT(With("\"stop\": \"" + std::string(257, 'x') + "\""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("256")));
}

TEST(CompletionRequestTest, ModelAndPromptMustBeGiven) {
  EXPECT_THAT(
      ParseCompletionRequest(R"({"prompt": ""})"),
      StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("model: ")));
  EXPECT_THAT(
      ParseCompletionRequest(R"({"model": "jobs/a/models/m"})"),
      StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("prompt: ")));
}

TEST(CompletionRequestTest, OtherBodiesAreRefused) {
  for (const std::string& body :
       {std::string(), std::string("x"), std::string("[]"),
        std::string("{\"prompt\": \"\xff\"}"), std::string(100000, '['),
        std::string("null")}) {
    EXPECT_THAT(ParseCompletionRequest(body),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace comera::worker
