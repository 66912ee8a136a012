// Checks requests to continue texts.
#include "worker/trainer/generate/generation_request.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

// No text has so many bytes a token on average.
constexpr int64_t kBytesOfToken = 256;
constexpr int64_t kDefaultMaxTokens = 128;
constexpr int64_t kMostTokens = 65536;
constexpr int kMostStops = 16;
constexpr size_t kMostStopBytes = 256;

absl::Status SetSampling(const v1::GenerateRequest& request,
                         SamplingOptions* sampling) {
  if (request.has_temperature()) sampling->temperature = request.temperature();
  if (!std::isfinite(sampling->temperature) || sampling->temperature < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "temperature: ", sampling->temperature, " is no number from 0 on"));
  }
  if (request.top_k() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_k: ", request.top_k(), " is negative"));
  }
  sampling->top_k = request.top_k();
  if (request.has_top_p()) sampling->top_p = request.top_p();
  if (!(sampling->top_p > 0 && sampling->top_p <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "top_p: ", sampling->top_p, " is not above 0 and at most 1"));
  }
  sampling->seed = request.seed();
  return absl::OkStatus();
}

absl::Status SetStops(const v1::GenerateRequest& request,
                      std::vector<std::string>* stops) {
  if (request.stop_size() > kMostStops) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stop: ", request.stop_size(), " texts, more than ", kMostStops));
  }
  for (const std::string& stop : request.stop()) {
    if (stop.empty()) return absl::InvalidArgumentError("stop: empty");
    if (stop.size() > kMostStopBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "stop: ", stop.size(), " bytes, more than ", kMostStopBytes));
    }
    if (!IsValidUtf8(stop)) {
      return absl::InvalidArgumentError("stop: not UTF-8");
    }
    stops->push_back(stop);
  }
  return absl::OkStatus();
}

absl::Status SetPrompt(const v1::GenerateRequest& request, int64_t length,
                       Tokenizer* tokenizer, GenerationRequest* checked) {
  if (!IsValidUtf8(request.prompt())) {
    return absl::InvalidArgumentError("prompt: not UTF-8");
  }
  // Tokenising a long text would stop all others that grow.
  if (static_cast<int64_t>(request.prompt().size()) > length * kBytesOfToken) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompt: ", request.prompt().size(), " bytes, more than ",
        length * kBytesOfToken, " for a model of ", length, " tokens"));
  }
  tokenizer->Encode(request.prompt(), &checked->prompt);
  const auto tokens = static_cast<int64_t>(checked->prompt.size());
  if (tokens >= length) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt: ", tokens, " tokens, more than ", length - 1,
                     ", after which the model's length of ", length,
                     " leaves room for one"));
  }
  if (tokens > 0) return absl::OkStatus();
  const int32_t begin = tokenizer->special_tokens().cls;
  const std::optional<int32_t> end = tokenizer->end_of_text();
  if (begin < 0 && !end) {
    return absl::InvalidArgumentError(
        "prompt: has no token, and the vocabulary none that begins texts");
  }
  if (length < 2) {
    return absl::InvalidArgumentError(
        "prompt: texts of one token leave no room for another");
  }
  checked->begins_text = true;
  checked->prompt.push_back(begin >= 0 ? begin : *end);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GenerationRequest> CheckGenerateRequest(
    const v1::GenerateRequest& request, int64_t length, Tokenizer* tokenizer) {
  GenerationRequest checked;
  checked.max_tokens =
      request.max_tokens() == 0 ? kDefaultMaxTokens : request.max_tokens();
  if (checked.max_tokens < 1 || checked.max_tokens > kMostTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_tokens: ", request.max_tokens(), " is not in 1 to ", kMostTokens));
  }
  RETURN_IF_ERROR(SetSampling(request, &checked.sampling));
  RETURN_IF_ERROR(SetStops(request, &checked.stop));
  RETURN_IF_ERROR(SetPrompt(request, length, tokenizer, &checked));
  return checked;
}

}  // namespace comera::trainer
