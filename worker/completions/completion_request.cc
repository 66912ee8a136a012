// Reads requests of OpenAI's completions API.

#include "worker/completions/completion_request.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

using Json = nlohmann::json;
using Reader = std::function<absl::Status(const Json&, CompletionRequest*)>;

constexpr int64_t kDefaultTokens = 16;
constexpr int64_t kMostTokens = 65536;
constexpr int64_t kMostTopK = int64_t{1} << 30;
constexpr size_t kMostStops = 16;
constexpr size_t kMostStopBytes = 256;
constexpr size_t kShownName = 64;

absl::Status Wrong(absl::string_view why) {
  return absl::InvalidArgumentError(why);
}

absl::StatusOr<bool> Bool(const Json& value) {
  if (!value.is_boolean()) return Wrong("must be true or false");
  return value.get<bool>();
}

absl::StatusOr<std::string> Text(const Json& value) {
  if (!value.is_string()) return Wrong("must be a string");
  return value.get<std::string>();
}

absl::StatusOr<int64_t> Whole(const Json& value, int64_t least, int64_t most) {
  const bool fits =
      value.is_number_unsigned()
          ? value.get<uint64_t>() <= static_cast<uint64_t>(most)
          : value.is_number_integer() && value.get<int64_t>() <= most;
  if (!fits || value.get<int64_t>() < least) {
    return Wrong(absl::StrCat("must be a whole number, ", least, " to ", most));
  }
  return value.get<int64_t>();
}

absl::StatusOr<double> Number(const Json& value) {
  if (!value.is_number()) return Wrong("must be a number");
  return value.get<double>();
}

absl::Status AddStop(const Json& value, CompletionRequest* request) {
  if (!value.is_string()) return Wrong("must be a string, or a list of them");
  std::string text = value.get<std::string>();
  if (text.empty() || text.size() > kMostStopBytes) {
    return Wrong(absl::StrCat("a text has 1 to ", kMostStopBytes, " bytes"));
  }
  request->generate.add_stop(std::move(text));
  return absl::OkStatus();
}

absl::Status ReadStop(const Json& value, CompletionRequest* request) {
  if (!value.is_array()) return AddStop(value, request);
  if (value.size() > kMostStops) {
    return Wrong(absl::StrCat("at most ", kMostStops, " texts"));
  }
  for (const Json& one : value) RETURN_IF_ERROR(AddStop(one, request));
  return absl::OkStatus();
}

absl::Status ReadSeed(const Json& value, CompletionRequest* request) {
  if (!value.is_number_integer()) return Wrong("must be a whole number");
  // Negative seeds are as good as others.
  request->generate.set_seed(value.is_number_unsigned()
                                 ? value.get<uint64_t>()
                                 : static_cast<uint64_t>(value.get<int64_t>()));
  return absl::OkStatus();
}

absl::Status ReadStreamOptions(const Json& value, CompletionRequest* request) {
  if (!value.is_object()) return Wrong("must be an object");
  for (const auto& [name, member] : value.items()) {
    if (name != "include_usage") {
      return Wrong(absl::StrCat("only include_usage is known, not \"",
                                absl::CEscape(name.substr(0, kShownName)),
                                "\""));
    }
    ASSIGN_OR_RETURN(request->include_usage, Bool(member));
  }
  return absl::OkStatus();
}

// A reader of a field that may only have this value.
Reader Only(const Json& value) {
  return [value](const Json& given, CompletionRequest*) {
    if (given == value) return absl::OkStatus();
    return Wrong(
        absl::StrCat("not supported; only ", JsonText(value), " is possible"));
  };
}

const std::map<std::string, Reader>& Readers() {
  static const auto* const readers = new std::map<std::string, Reader>{
      {"model",
       [](const Json& value, CompletionRequest* request) -> absl::Status {
         ASSIGN_OR_RETURN(*request->generate.mutable_name(), Text(value));
         return absl::OkStatus();
       }},
      {"prompt",
       [](const Json& value, CompletionRequest* request) -> absl::Status {
         ASSIGN_OR_RETURN(*request->generate.mutable_prompt(), Text(value));
         return absl::OkStatus();
       }},
      {"max_tokens",
       [](const Json& value, CompletionRequest* request) -> absl::Status {
         ASSIGN_OR_RETURN(const int64_t tokens, Whole(value, 1, kMostTokens));
         request->generate.set_max_tokens(static_cast<int32_t>(tokens));
         return absl::OkStatus();
       }},
      {"temperature",
       [](const Json& value, CompletionRequest* request) -> absl::Status {
         ASSIGN_OR_RETURN(const double number, Number(value));
         if (!(number >= 0) || !std::isfinite(number)) {
           return Wrong("must not be negative");
         }
         request->generate.set_temperature(number);
         return absl::OkStatus();
       }},
      {"top_p",
       [](const Json& value, CompletionRequest* request) -> absl::Status {
         ASSIGN_OR_RETURN(const double number, Number(value));
         if (!(number > 0 && number <= 1)) {
           return Wrong("must be above 0 and at most 1");
         }
         request->generate.set_top_p(number);
         return absl::OkStatus();
       }},
      {"top_k",
       [](const Json& value, CompletionRequest* request) -> absl::Status {
         ASSIGN_OR_RETURN(const int64_t k, Whole(value, 0, kMostTopK));
         request->generate.set_top_k(static_cast<int32_t>(k));
         return absl::OkStatus();
       }},
      {"stop", ReadStop},
      {"seed", ReadSeed},
      {"stream",
       [](const Json& value, CompletionRequest* request) -> absl::Status {
         ASSIGN_OR_RETURN(request->stream, Bool(value));
         return absl::OkStatus();
       }},
      {"stream_options", ReadStreamOptions},
      {"echo",
       [](const Json& value, CompletionRequest* request) -> absl::Status {
         ASSIGN_OR_RETURN(request->echo, Bool(value));
         return absl::OkStatus();
       }},
      // A name for abuse reports, which changes no answer.
      {"user", [](const Json& value,
                  CompletionRequest*) { return Text(value).status(); }},
      {"n", Only(1)},
      {"best_of", Only(1)},
      {"frequency_penalty", Only(0)},
      {"presence_penalty", Only(0)},
      {"logit_bias", Only(Json::object())},
      {"logprobs", Only(nullptr)},
      {"suffix", Only("")},
  };
  return *readers;
}

absl::Status Named(absl::string_view field, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(field, ": ", status.message()));
}

}  // namespace

absl::StatusOr<CompletionRequest> ParseCompletionRequest(
    absl::string_view body) {
  const Json json = ParseJson(body);
  if (!json.is_object()) return Wrong("the body is no JSON object");
  CompletionRequest request;
  request.generate.set_max_tokens(kDefaultTokens);
  std::random_device random;
  request.generate.set_seed(random());
  for (const auto& [name, value] : json.items()) {
    const auto reader = Readers().find(name);
    if (reader == Readers().end()) {
      return Named(absl::CEscape(name.substr(0, kShownName)),
                   Wrong("no such field"));
    }
    // As in OpenAI's API, null means that a field is not there.
    if (value.is_null()) continue;
    RETURN_IF_ERROR(Named(name, reader->second(value, &request)));
  }
  for (const char* required : {"model", "prompt"}) {
    if (json.value(required, Json()).is_null()) {
      return Named(required, Wrong("must be given"));
    }
  }
  if (request.include_usage && !request.stream) {
    return Named("stream_options", Wrong("only with stream"));
  }
  return request;
}

}  // namespace comera::worker
