#ifndef COMERA_WORKER_TRAINER_PREDICT_CLICK_PREDICTOR_H_
#define COMERA_WORKER_TRAINER_PREDICT_CLICK_PREDICTOR_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/trainer/data/clicks/category_tables.h"
#include "worker/trainer/predict/predictor.h"
#include "worker/trainer/predict/predictor_parts.h"

namespace comera::trainer {

// Probabilities of clicks.
class ClickPredictor : public Predictor {
 public:
  // NotFound, DataLoss: the dictionaries of a model of Criteo's columns.
  static absl::StatusOr<std::unique_ptr<Predictor>> Create(
      const std::string& directory, PredictorParts parts);

 protected:
  absl::Status Answer(const v1::PredictRequest& request,
                      v1::PredictResponse* response) override;

 private:
  struct Pass;

  explicit ClickPredictor(PredictorParts parts) : parts_(std::move(parts)) {
    served_ = parts_.served;
  }
  absl::StatusOr<int32_t> TableRow(int64_t table,
                                   const std::string& text) const;
  // Appends the row to the pass. InvalidArgument: it is malformed.
  absl::Status AddRow(const v1::PredictRow& row, Pass* pass) const;
  absl::Status Flush(Pass* pass);

  PredictorParts parts_;
  std::optional<CategoryTables> categories_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_CLICK_PREDICTOR_H_
