// Answers requests read as lines until the input ends.
#include "worker/trainer/predict/serve.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

// Lines from a descriptor in bounded memory.
class Lines {
 public:
  explicit Lines(int input) : input_(input) {}

  // False at the end; a last line needs no end.
  absl::StatusOr<bool> Next(std::string* line) {
    line->clear();
    while (true) {
      const auto begin = buffer_.begin() + static_cast<int64_t>(at_);
      const auto end = std::find(begin, buffer_.end(), '\n');
      line->append(begin, end);
      if (line->size() > kMaxRequestLine) {
        return absl::ResourceExhaustedError(
            absl::StrCat("a request of more than ", kMaxRequestLine, " bytes"));
      }
      if (end != buffer_.end()) {
        at_ = static_cast<size_t>(end - buffer_.begin()) + 1;
        return true;
      }
      at_ = 0;
      buffer_.resize(size_t{1} << 16);
      const ssize_t got = read(input_, buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR) {
        buffer_.clear();
        continue;
      }
      if (got < 0) return ErrnoStatus(errno, "standard input");
      buffer_.resize(static_cast<size_t>(got));
      if (got == 0) return !line->empty();
    }
  }

 private:
  const int input_;
  std::string buffer_;
  size_t at_ = 0;
};

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

absl::Status Serve(Predictor* predictor, int input, int output) {
  ASSIGN_OR_RETURN(bool read_on,
                   WriteAll(output, PredictLine(predictor->served())));
  Lines lines(input);
  std::string line;
  while (read_on) {
    ASSIGN_OR_RETURN(const bool more, lines.Next(&line));
    if (!more) return absl::OkStatus();
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    absl::StatusOr<v1::PredictRequest> request = ParsePredictRequest(line);
    absl::StatusOr<v1::PredictResponse> response =
        request.ok() ? predictor->Predict(*request)
                     : absl::StatusOr<v1::PredictResponse>(request.status());
    if (!response.ok() && !absl::IsInvalidArgument(response.status())) {
      return response.status();
    }
    if (!response.ok()) {
      v1::PredictResponse refused;
      refused.set_error(std::string(response.status().message()));
      response = std::move(refused);
    }
    ASSIGN_OR_RETURN(read_on, WriteAll(output, PredictLine(*response)));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
