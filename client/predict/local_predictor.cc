// Runs a trainer as a prediction server and exchanges JSON lines with it.

#include "client/predict/local_predictor.h"

#include <signal.h>

#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"

namespace comera::client {
namespace {

// The size limit of one answer's line.
constexpr size_t kMaxLine = size_t{256} << 20;
constexpr size_t kErrorTail = 2000;

}  // namespace

absl::StatusOr<std::unique_ptr<LocalPredictor>> LocalPredictor::Start(
    const std::vector<std::string>& command) {
  ChildProgram::Options options;
  options.input = ChildProgram::Input::kSent;
  options.longest_line = kMaxLine;
  options.parent_signal = SIGKILL;
  ASSIGN_OR_RETURN(auto program, ChildProgram::Start(command, options));
  auto predictor = absl::WrapUnique(new LocalPredictor(std::move(program)));
  ASSIGN_OR_RETURN(const std::string line, predictor->ReceiveLine());
  google::protobuf::util::JsonParseOptions lenient;
  // A newer program may send more fields.
  lenient.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(line, &predictor->model_,
                                                   lenient)
           .ok()) {
    return absl::InternalError("comera-trainer does not tell its model");
  }
  return predictor;
}

void LocalPredictor::Stop() {
  stopped_ = true;
  program_->Stop(/*at_once=*/true);
}

absl::Status LocalPredictor::EndOfProgram() {
  if (stopped_) return absl::CancelledError("stopped");
  const std::string said = program_->Errors(kErrorTail);
  absl::string_view text = said;
  absl::ConsumePrefix(&text, "comera-trainer: ");
  return absl::FailedPreconditionError(text.empty() ? "comera-trainer ended"
                                                    : text);
}

absl::StatusOr<std::string> LocalPredictor::ReceiveLine() {
  ASSIGN_OR_RETURN(std::optional<std::string> line, program_->NextLine());
  if (!line) return EndOfProgram();
  return *std::move(line);
}

absl::Status LocalPredictor::Ask(const v1::PredictRequest& request) {
  if (stopped_) return absl::CancelledError("stopped");
  std::string line;
  const auto written =
      google::protobuf::util::MessageToJsonString(request, &line);
  if (!written.ok()) {
    return absl::InvalidArgumentError(std::string(written.message()));
  }
  return program_->Send(line + "\n") ? absl::OkStatus() : EndOfProgram();
}

absl::StatusOr<v1::PredictResponse> LocalPredictor::Answer() {
  ASSIGN_OR_RETURN(const std::string line, ReceiveLine());
  v1::PredictResponse response;
  google::protobuf::util::JsonParseOptions lenient;
  lenient.ignore_unknown_fields = true;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(line, &response, lenient);
  if (!parsed.ok()) {
    return absl::InternalError(absl::StrCat("comera-trainer gives no answer: ",
                                            std::string(parsed.message())));
  }
  if (!response.error().empty()) {
    return absl::InvalidArgumentError(response.error());
  }
  return response;
}

absl::StatusOr<v1::PredictResponse> LocalPredictor::Predict(
    const v1::PredictRequest& request) {
  RETURN_IF_ERROR(Ask(request));
  ASSIGN_OR_RETURN(v1::PredictResponse response, Answer());
  if (response.predictions_size() != request.rows_size()) {
    return absl::InternalError("comera-trainer answers other rows");
  }
  return response;
}

absl::Status LocalPredictor::Generate(
    const v1::GenerateRequest& request,
    const std::function<absl::Status(const v1::GenerateResponse&)>& take) {
  if (model_.max_generations() <= 0) {
    return absl::FailedPreconditionError(
        "the model generates no text: only models of the family causal_lm do");
  }
  v1::PredictRequest asked;
  *asked.mutable_generate() = request;
  RETURN_IF_ERROR(Ask(asked));
  while (true) {
    ASSIGN_OR_RETURN(const v1::PredictResponse response, Answer());
    if (!response.has_generated()) {
      return absl::InternalError("comera-trainer answers another request");
    }
    RETURN_IF_ERROR(take(response.generated()));
    if (response.generated().finish() !=
        v1::GenerateResponse::FINISH_UNSPECIFIED) {
      return absl::OkStatus();
    }
  }
}

}  // namespace comera::client
