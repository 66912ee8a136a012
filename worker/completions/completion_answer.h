#ifndef COMERA_WORKER_COMPLETIONS_COMPLETION_ANSWER_H_
#define COMERA_WORKER_COMPLETIONS_COMPLETION_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comera/v1/predict_service.pb.h"
#include "worker/predict/text_models.h"

namespace comera::worker {

// The answers to one completion, as JSON in the form of OpenAI's API.
class CompletionAnswer {
 public:
  // `id` is the answer's name. With `usage`, events have a field of that name.
  CompletionAnswer(std::string id, std::string model, absl::Time created,
                   bool usage);

  // The whole answer: `text`, and what `last`, the last piece, tells.
  std::string Whole(const std::string& text,
                    const v1::GenerateResponse& last) const;
  // An event with a piece of the text, which may be the last.
  std::string Piece(const v1::GenerateResponse& piece) const;
  // The event that tells the tokens, after the last piece.
  std::string Usage(const v1::GenerateResponse& last) const;

 private:
  const std::string id_, model_;
  const int64_t created_;  // seconds since 1970
  const bool usage_;
};

// The answer to GET /v1/models.
std::string ModelsJson(const std::vector<ListedModel>& models);

// An error of the HTTP port.
struct HttpError {
  int status = 500;
  // OpenAI's names: "invalid_request_error" and the like.
  std::string type, code;
  // The field at fault; empty if there is none.
  std::string param;
  std::string message;
};

// OutOfRange means that the request is too large.
HttpError ErrorOf(const absl::Status& status);
// {"error": {"message", "type", "param", "code"}}.
std::string ErrorJson(const HttpError& error);

}  // namespace comera::worker

#endif  // COMERA_WORKER_COMPLETIONS_COMPLETION_ANSWER_H_
