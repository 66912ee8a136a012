// Answers requests read as lines until the input ends, while texts grow.
#include "worker/trainer/predict/serve.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/generate/generator.h"
#include "worker/trainer/predict/line_input.h"

namespace comera::trainer {
namespace {

// False: nobody reads any more.
absl::StatusOr<bool> WriteAll(int output, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(output, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EPIPE) return false;
    if (put < 0) return ErrnoStatus(errno, "standard output");
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

// Answers of requests that are read while texts grow.
class Server {
 public:
  Server(Predictor* predictor, int input, int output)
      : predictor_(*predictor),
        input_(input, kMaxRequestLine),
        output_(output) {}

  absl::Status Run() {
    const absl::StatusOr<Generator*> generator = predictor_.generator();
    if (generator.ok()) generator_ = *generator;
    RETURN_IF_ERROR(Write(PredictLine(predictor_.served())));
    while (!closed_) {
      RETURN_IF_ERROR(AnswerLines());
      const bool idle = !Generates();
      if (idle && input_.ended()) break;
      RETURN_IF_ERROR(Poll(/*wait=*/idle));
      if (!idle) RETURN_IF_ERROR(Step());
    }
    return absl::OkStatus();
  }

 private:
  bool Generates() const {
    return generator_ != nullptr && !generator_->idle();
  }

  // Answers, or begins to answer, the requests that have been read; while texts
  // grow, one of rows at most, so that many do not hold them up.
  absl::Status AnswerLines() {
    std::string line;
    bool rows = held_.has_value();
    if (rows) RETURN_IF_ERROR(Answer(*std::exchange(held_, std::nullopt)));
    while (!closed_ && !in_order_) {
      ASSIGN_OR_RETURN(const bool more, input_.PopLine(&line));
      if (!more) break;
      if (absl::StripAsciiWhitespace(line).empty()) continue;
      absl::StatusOr<v1::PredictRequest> request = ParsePredictRequest(line);
      const bool has_rows = request.ok() && request->rows_size() > 0;
      if (rows && has_rows && Generates()) {
        held_ = *std::move(request);
        break;
      }
      rows = rows || has_rows;
      RETURN_IF_ERROR(request.ok() ? Answer(*request)
                                   : Refuse(0, request.status()));
    }
    return absl::OkStatus();
  }

  absl::Status Answer(const v1::PredictRequest& request) {
    if (request.cancel() != 0) {
      if (growing_.erase(request.cancel()) == 0) return absl::OkStatus();
      generator_->Cancel(request.cancel());
      return Refuse(request.cancel(), absl::CancelledError("cancelled"));
    }
    if (request.has_generate()) return Generate(request);
    absl::StatusOr<v1::PredictResponse> response = predictor_.Predict(request);
    if (absl::IsInvalidArgument(response.status())) {
      return Refuse(request.number(), response.status());
    }
    RETURN_IF_ERROR(response.status());
    response->set_number(request.number());
    return Write(AnswerLine(*response));
  }

  absl::Status Generate(const v1::PredictRequest& request) {
    if (request.rows_size() > 0) {
      return Refuse(request.number(),
                    absl::InvalidArgumentError(
                        "rows: a request with `generate` has none"));
    }
    const absl::Status started =
        generator_ == nullptr
            ? predictor_.generator().status()
            : generator_->Start(request.number(), request.generate());
    if (!started.ok()) return Refuse(request.number(), started);
    growing_.insert(request.number());
    in_order_ = request.number() == 0;
    return absl::OkStatus();
  }

  // Lets texts grow and writes what they grow by.
  absl::Status Step() {
    std::vector<GeneratedPiece> pieces;
    RETURN_IF_ERROR(generator_->Step(&pieces));
    std::string lines;
    for (const GeneratedPiece& piece : pieces) {
      v1::PredictResponse response;
      response.set_number(piece.number);
      if (piece.response.ok()) {
        *response.mutable_generated() = *piece.response;
      } else {
        response.set_error(std::string(piece.response.status().message()));
      }
      const bool last =
          !piece.response.ok() ||
          piece.response->finish() != v1::GenerateResponse::FINISH_UNSPECIFIED;
      if (last && piece.number == 0) in_order_ = false;
      if (last) growing_.erase(piece.number);
      lines += AnswerLine(response);
    }
    return Write(lines);
  }

  // Reads what there is, if requests are taken, and notes whether somebody
  // still reads the answers; `wait`: until there is one or the other.
  absl::Status Poll(bool wait) {
    const bool reads = !in_order_ && !held_ && !input_.ended();
    pollfd descriptors[2] = {{reads ? input_.descriptor() : -1, POLLIN, 0},
                             {output_, 0, 0}};
    const int ready = poll(descriptors, 2, wait ? -1 : 0);
    if (ready < 0 && errno == EINTR) return absl::OkStatus();
    if (ready < 0) return ErrnoStatus(errno, "poll");
    if (descriptors[1].revents != 0) closed_ = true;
    return descriptors[0].revents != 0 ? input_.Read() : absl::OkStatus();
  }

  absl::Status Refuse(int64_t number, const absl::Status& why) {
    v1::PredictResponse refused;
    refused.set_number(number);
    refused.set_error(std::string(why.message()));
    return Write(AnswerLine(refused));
  }

  absl::Status Write(absl::string_view lines) {
    ASSIGN_OR_RETURN(const bool read, WriteAll(output_, lines));
    if (!read) closed_ = true;
    return absl::OkStatus();
  }

  Predictor& predictor_;
  Generator* generator_ = nullptr;  // null: the model generates nothing
  LineInput input_;
  const int output_;
  // The numbers of the texts that have not ended.
  std::set<int64_t> growing_;
  // A text without a number grows: its answers come before the next request.
  bool in_order_ = false;
  // A request that waits until texts have grown.
  std::optional<v1::PredictRequest> held_;
  bool closed_ = false;  // nobody reads the answers
};

}  // namespace

absl::StatusOr<v1::PredictRequest> ParsePredictRequest(
    const std::string& line) {
  if (!IsValidUtf8(line)) {
    return absl::InvalidArgumentError("not a predict request: not UTF-8");
  }
  v1::PredictRequest request;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(line, &request);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "not a predict request: ", Printable(std::string(parsed.message()))));
  }
  return request;
}

std::string PredictLine(const google::protobuf::Message& message) {
  std::string line;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  // Only fails for messages with Any fields of unknown type; there are none.
  (void)google::protobuf::util::MessageToJsonString(message, &line, options);
  line += '\n';
  return line;
}

std::string AnswerLine(const v1::PredictResponse& answer) {
  std::string line = PredictLine(answer);
  if (line.size() <= kMaxAnswerLine) return line;
  v1::PredictResponse refused;
  refused.set_number(answer.number());
  refused.set_error(absl::StrCat("the answer has ", line.size(),
                                 " bytes, more than ", kMaxAnswerLine,
                                 ": ask with fewer rows"));
  return PredictLine(refused);
}

absl::Status Serve(Predictor* predictor, int input, int output) {
  return Server(predictor, input, output).Run();
}

}  // namespace comera::trainer
