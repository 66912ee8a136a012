// Writes answers and errors of OpenAI's completions API.

#include "worker/completions/completion_answer.h"

#include <utility>

#include "common/json.h"

namespace comera::worker {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostParam = 40;
constexpr char kInvalid[] = "invalid_request_error";

Json FinishOf(const v1::GenerateResponse& piece) {
  switch (piece.finish()) {
    case v1::GenerateResponse::LENGTH:
      return "length";
    case v1::GenerateResponse::STOP:
    case v1::GenerateResponse::END_OF_TEXT:
      return "stop";
    default:
      return nullptr;
  }
}

Json ChoicesOf(const std::string& text, const v1::GenerateResponse& piece) {
  return Json::array({{{"text", text},
                       {"index", 0},
                       {"logprobs", nullptr},
                       {"finish_reason", FinishOf(piece)}}});
}

Json UsageOf(const v1::GenerateResponse& last) {
  return {{"prompt_tokens", last.prompt_tokens()},
          {"completion_tokens", last.generated_tokens()},
          {"total_tokens",
           int64_t{last.prompt_tokens()} + last.generated_tokens()}};
}

// The field that a message "field: why" names; empty if it names none.
std::string FieldOf(const std::string& message) {
  const size_t end = message.find(": ");
  if (end == std::string::npos || end > kMostParam) return "";
  const std::string field = message.substr(0, end);
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
  return field.find_first_not_of(kLetters) == std::string::npos ? field : "";
}

}  // namespace

CompletionAnswer::CompletionAnswer(std::string id, std::string model,
                                   absl::Time created, bool usage)
    : id_(std::move(id)),
      model_(std::move(model)),
      created_(absl::ToUnixSeconds(created)),
      usage_(usage) {}

std::string CompletionAnswer::Whole(const std::string& text,
                                    const v1::GenerateResponse& last) const {
  return JsonText(Json{{"id", id_},
                       {"object", "text_completion"},
                       {"created", created_},
                       {"model", model_},
                       {"choices", ChoicesOf(text, last)},
                       {"usage", UsageOf(last)}});
}

std::string CompletionAnswer::Piece(const v1::GenerateResponse& piece) const {
  Json json = {{"id", id_},
               {"object", "text_completion"},
               {"created", created_},
               {"model", model_},
               {"choices", ChoicesOf(piece.text(), piece)}};
  if (usage_) json["usage"] = nullptr;
  return JsonText(json);
}

std::string CompletionAnswer::Usage(const v1::GenerateResponse& last) const {
  return JsonText(Json{{"id", id_},
                       {"object", "text_completion"},
                       {"created", created_},
                       {"model", model_},
                       {"choices", Json::array()},
                       {"usage", UsageOf(last)}});
}

std::string ModelsJson(const std::vector<ListedModel>& models) {
  Json data = Json::array();
  for (const ListedModel& model : models) {
    data.push_back({{"id", model.name},
                    {"object", "model"},
                    {"created", absl::ToUnixSeconds(model.created)},
                    {"owned_by", model.user},
                    {"loaded", model.loaded}});
  }
  return JsonText(Json{{"object", "list"}, {"data", std::move(data)}});
}

HttpError ErrorOf(const absl::Status& status) {
  HttpError error;
  error.message = std::string(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      error.status = 400;
      error.type = kInvalid;
      error.param = FieldOf(error.message);
      // To callers of HTTP, a model's name is the field "model".
      if (error.param == "name") error.param = "model";
      break;
    case absl::StatusCode::kFailedPrecondition:
      error.status = 400;
      error.type = kInvalid;
      error.code = "model_unusable";
      break;
    case absl::StatusCode::kUnauthenticated:
      error.status = 401;
      error.type = kInvalid;
      error.code = "invalid_api_key";
      break;
    case absl::StatusCode::kPermissionDenied:
      error.status = 403;
      error.type = kInvalid;
      error.code = "permission_denied";
      break;
    case absl::StatusCode::kNotFound:
      error.status = 404;
      error.type = kInvalid;
      error.code = "model_not_found";
      error.param = "model";
      break;
    case absl::StatusCode::kOutOfRange:
      error.status = 413;
      error.type = kInvalid;
      error.code = "request_too_large";
      break;
    case absl::StatusCode::kResourceExhausted:
      error.status = 429;
      error.type = "rate_limit_error";
      error.code = "rate_limit_exceeded";
      break;
    case absl::StatusCode::kUnavailable:
      error.status = 503;
      error.type = "server_error";
      error.code = "unavailable";
      break;
    case absl::StatusCode::kDeadlineExceeded:
      error.status = 504;
      error.type = "server_error";
      error.code = "timeout";
      break;
    default:
      error.type = "server_error";
  }
  return error;
}

std::string ErrorJson(const HttpError& error) {
  const auto text = [](const std::string& value) {
    return value.empty() ? Json(nullptr) : Json(value);
  };
  return JsonText(Json{{"error",
                        {{"message", error.message},
                         {"type", error.type},
                         {"param", text(error.param)},
                         {"code", text(error.code)}}}});
}

}  // namespace comera::worker
