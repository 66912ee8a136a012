#ifndef COMERA_WORKER_TRAINER_DATA_CLICKS_CLICK_SOURCE_H_
#define COMERA_WORKER_TRAINER_DATA_CLICKS_CLICK_SOURCE_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/data/clicks/category_tables.h"

namespace comera::trainer {

// Rows of a click log in any order.
//
// Thread safety: const methods may be called from several threads.
class ClickSource {
 public:
  enum class Part { kTrain, kValidation, kTest };

  virtual ~ClickSource() = default;

  virtual const ClickShape& shape() const = 0;
  // 0 for the test part where there is none.
  virtual int64_t rows(Part part) const = 0;

  // Writes shape().dense_features numbers to `dense` and the row of table t to
  // categories[t * stride]; returns the label, 0 or 1. `row` is in range.
  virtual int32_t Read(Part part, int64_t row, float* dense,
                       int32_t* categories, int64_t stride) const = 0;

  // The rows that the values of its categories have; nothing where the values
  // are rows themselves. InvalidArgument: they contradict each other.
  virtual absl::StatusOr<std::optional<CategoryTables>> categories() const {
    return std::optional<CategoryTables>();
  }

  // Whether the log was made from known probabilities.
  virtual bool knows_truth() const { return false; }
  // Log-odds of a click; only if knows_truth().
  virtual double TrueLogit(Part /*part*/, int64_t /*row*/) const { return 0; }
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CLICKS_CLICK_SOURCE_H_
