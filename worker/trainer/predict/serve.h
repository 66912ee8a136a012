#ifndef COMERA_WORKER_TRAINER_PREDICT_SERVE_H_
#define COMERA_WORKER_TRAINER_PREDICT_SERVE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/predict_service.pb.h"
#include "worker/trainer/predict/predictor.h"

namespace comera::trainer {

// Longest line of a request, in bytes.
inline constexpr size_t kMaxRequestLine = size_t{32} << 20;
// Longest line of an answer, in bytes: readers give up a process that writes
// lines of more than 64 MiB.
inline constexpr size_t kMaxAnswerLine = (size_t{64} << 20) - 1024;

// A request from one line of protobuf JSON. InvalidArgument: malformed, or
// nested deeper than requests are.
absl::StatusOr<v1::PredictRequest> ParsePredictRequest(const std::string& line);

// The message as a line, with its end.
std::string PredictLine(const google::protobuf::Message& message);
// The answer as a line; if that were longer than kMaxAnswerLine, a line with
// the same number that refuses the request.
std::string AnswerLine(const v1::PredictResponse& answer);

// Answers requests: writes a line with the ServedModel, then, for each line
// with a PredictRequest that it reads, one with its PredictResponse, or several
// for a text that is generated, the last of which, if the text is cancelled,
// has an `error`. Requests without a number are answered one after the other;
// with one, they are also read while texts grow, and their answers come in any
// order; texts grow by a token between two requests of rows. Ends at the end of
// its input, when all are answered, or when its reader has closed.
// ResourceExhausted: a line above kMaxRequestLine; Unavailable: a stream is
// broken; errors of the engine.
absl::Status Serve(Predictor* predictor, int input, int output);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_SERVE_H_
