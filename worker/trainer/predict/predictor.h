#ifndef COMERA_WORKER_TRAINER_PREDICT_PREDICTOR_H_
#define COMERA_WORKER_TRAINER_PREDICT_PREDICTOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/predict_service.pb.h"
#include "worker/trainer/process/make_backend.h"

namespace comera::trainer {

class Generator;

// Rows of one request at most.
inline constexpr int kMaxPredictRows = 1024;
inline constexpr int kMaxTopK = 100;
// Vocabulary logits of one answer at most. They travel as text, of up to 16
// bytes each, in a line of at most kMaxAnswerLine (serve.h).
inline constexpr int64_t kMaxAnswerLogits = int64_t{1} << 21;

struct PredictOptions {
  BackendOptions backend;
  // Folder in which measured numbers of this machine are kept; empty: none.
  std::string cache_dir;
  // Rows that go through the model together; 0: as many as is good for speed,
  // and for activations of 512 MiB.
  int64_t batch_size = 0;
};

// An exported model that answers rows of raw data.
//
//   ASSIGN_OR_RETURN(auto predictor, Predictor::Open(directory, options));
//   ASSIGN_OR_RETURN(v1::PredictResponse response,
//                    predictor->Predict(request));
//
// Not thread-safe.
class Predictor {
 public:
  using Options = PredictOptions;

  // Reads what training exported: the model, its tokenizer, how rows are read.
  // NotFound: a file is missing; DataLoss: files are malformed or belong to
  // different models; FailedPrecondition: no such device; ResourceExhausted:
  // does not fit.
  static absl::StatusOr<std::unique_ptr<Predictor>> Open(
      const std::string& directory, const Options& options);
  virtual ~Predictor() = default;

  const v1::ServedModel& served() const { return served_; }

  // A malformed row is reported in its own prediction.
  // InvalidArgument: the request, or its answer would be too long.
  absl::StatusOr<v1::PredictResponse> Predict(
      const v1::PredictRequest& request);

  // What continues texts with the model, owned by the predictor.
  // InvalidArgument: the model is no causal_lm. ResourceExhausted: there is no
  // memory for it beside what predicts.
  virtual absl::StatusOr<Generator*> generator();

 protected:
  // Fills in as many predictions as there are rows.
  virtual absl::Status Answer(const v1::PredictRequest& request,
                              v1::PredictResponse* response) = 0;

  v1::ServedModel served_;
  // Tokens that a language model tells logits of; 0: another family.
  int64_t vocabulary_ = 0;

 private:
  // Whether the logits or choices that a request asks for fit its answer.
  absl::Status CheckAnswer(const v1::PredictRequest& request) const;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_PREDICTOR_H_
