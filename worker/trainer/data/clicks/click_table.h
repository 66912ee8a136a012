#ifndef COMERA_WORKER_TRAINER_DATA_CLICKS_CLICK_TABLE_H_
#define COMERA_WORKER_TRAINER_DATA_CLICKS_CLICK_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/data/clicks/click_source.h"

namespace comera::trainer {

// A click log in memory: rows in order, of which the first train, the last
// validate, and those in between test.
//
// Not thread-safe while rows are added; const methods are.
class ClickTable : public ClickSource {
 public:
  ClickTable() = default;
  explicit ClickTable(int64_t dense_features, int64_t tables);

  // One row; both pointers as the shape says.
  void Add(int32_t label, const float* dense, const int32_t* categories);
  int64_t size() const { return static_cast<int64_t>(labels_.size()); }

  // Makes the numbers of column `table` rows of a table of `rows`:
  // row_of_number[number], or the number itself if that is empty.
  void SetTable(int64_t table, int64_t rows,
                const std::vector<int32_t>& row_of_number);
  // Keeps the values behind the first rows of that table for users of the
  // model.
  void SetOwnValues(int64_t table, std::vector<uint64_t> values) {
    own_values_[table] = std::move(values);
  }
  // `parts` equal parts: all but the last train, the second half of the last
  // validates. False: some part would be empty.
  bool Split(int64_t parts);

  const ClickShape& shape() const override { return shape_; }
  int64_t rows(Part part) const override {
    return part == Part::kTrain        ? train_end_
           : part == Part::kValidation ? size() - validation_begin_
                                       : validation_begin_ - train_end_;
  }
  int32_t Read(Part part, int64_t row, float* dense, int32_t* categories,
               int64_t stride) const override;

  absl::StatusOr<std::optional<CategoryTables>> categories() const override;

  // Bytes for the cache, and back. DataLoss: not what Serialize wrote.
  void Serialize(std::string* bytes) const;
  static absl::StatusOr<ClickTable> Parse(absl::string_view bytes);

 private:
  absl::Status Check() const;

  ClickShape shape_;
  std::vector<float> dense_;         // (rows, dense features)
  std::vector<int32_t> categories_;  // (rows, tables)
  std::vector<uint8_t> labels_;
  std::vector<std::vector<uint64_t>> own_values_;  // by table
  int64_t train_end_ = 0;
  int64_t validation_begin_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CLICKS_CLICK_TABLE_H_
