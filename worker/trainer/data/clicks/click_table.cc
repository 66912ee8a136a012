// Holds a click log in memory.
#include "worker/trainer/data/clicks/click_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "worker/trainer/data/source/vector_bytes.h"

namespace comera::trainer {

ClickTable::ClickTable(int64_t dense_features, int64_t tables) {
  shape_.dense_features = dense_features;
  shape_.table_rows.assign(tables, 0);
  own_values_.resize(tables);
}

void ClickTable::Add(int32_t label, const float* dense,
                     const int32_t* categories) {
  labels_.push_back(static_cast<uint8_t>(label));
  dense_.insert(dense_.end(), dense, dense + shape_.dense_features);
  categories_.insert(categories_.end(), categories,
                     categories + shape_.tables());
}

void ClickTable::SetTable(int64_t table, int64_t rows,
                          const std::vector<int32_t>& row_of_number) {
  shape_.table_rows[table] = rows;
  if (row_of_number.empty()) return;
  for (int64_t row = 0; row < size(); ++row) {
    int32_t& category = categories_[row * shape_.tables() + table];
    category = row_of_number[category];
  }
}

bool ClickTable::Split(int64_t parts) {
  train_end_ =
      size() / parts * (parts - 1) + size() % parts * (parts - 1) / parts;
  validation_begin_ = train_end_ + (size() - train_end_) / 2;
  return train_end_ > 0 && validation_begin_ < size();
}

int32_t ClickTable::Read(Part part, int64_t row, float* dense,
                         int32_t* categories, int64_t stride) const {
  if (part == Part::kValidation) row += validation_begin_;
  if (part == Part::kTest) row += train_end_;
  std::copy_n(dense_.begin() + row * shape_.dense_features,
              shape_.dense_features, dense);
  const int64_t tables = shape_.tables();
  for (int64_t t = 0; t < tables; ++t) {
    categories[t * stride] = categories_[row * tables + t];
  }
  return labels_[row];
}

void ClickTable::Serialize(std::string* bytes) const {
  AppendVector<int64_t>({shape_.dense_features, train_end_, validation_begin_},
                        bytes);
  AppendVector(shape_.table_rows, bytes);
  AppendVector(dense_, bytes);
  AppendVector(categories_, bytes);
  AppendVector(labels_, bytes);
  for (const std::vector<uint64_t>& values : own_values_) {
    AppendVector(values, bytes);
  }
}

absl::StatusOr<std::optional<CategoryTables>> ClickTable::categories() const {
  std::vector<CategoryTables::Table> tables;
  for (int64_t t = 0; t < shape_.tables(); ++t) {
    tables.push_back({own_values_[t], shape_.table_rows[t]});
  }
  return CategoryTables::Create(std::move(tables));
}

absl::StatusOr<ClickTable> ClickTable::Parse(absl::string_view bytes) {
  ClickTable table;
  std::vector<int64_t> numbers;
  RETURN_IF_ERROR(ConsumeVector(&bytes, &numbers));
  RETURN_IF_ERROR(ConsumeVector(&bytes, &table.shape_.table_rows));
  RETURN_IF_ERROR(ConsumeVector(&bytes, &table.dense_));
  RETURN_IF_ERROR(ConsumeVector(&bytes, &table.categories_));
  RETURN_IF_ERROR(ConsumeVector(&bytes, &table.labels_));
  for (size_t t = 0; t < table.shape_.table_rows.size(); ++t) {
    RETURN_IF_ERROR(ConsumeVector(&bytes, &table.own_values_.emplace_back()));
  }
  if (numbers.size() != 3 || !bytes.empty()) {
    return absl::DataLossError("too short or too long");
  }
  table.shape_.dense_features = numbers[0];
  table.train_end_ = numbers[1];
  table.validation_begin_ = numbers[2];
  RETURN_IF_ERROR(table.Check());
  return table;
}

absl::Status ClickTable::Check() const {
  const int64_t rows = size(), tables = shape_.tables();
  constexpr int64_t kMaxColumns = 1024;
  if (shape_.dense_features < 1 || shape_.dense_features > kMaxColumns ||
      tables < 1 || tables > kMaxColumns ||
      static_cast<int64_t>(dense_.size()) != rows * shape_.dense_features ||
      static_cast<int64_t>(categories_.size()) != rows * tables ||
      train_end_ < 1 || train_end_ > validation_begin_ ||
      validation_begin_ >= rows) {
    return absl::DataLossError("counts disagree");
  }
  for (size_t i = 0; i < categories_.size(); ++i) {
    if (categories_[i] < 0 ||
        categories_[i] >= shape_.table_rows[i % shape_.table_rows.size()]) {
      return absl::DataLossError("a category is outside its table");
    }
  }
  if (!std::all_of(dense_.begin(), dense_.end(),
                   [](float x) { return std::isfinite(x); }) ||
      std::any_of(labels_.begin(), labels_.end(),
                  [](uint8_t label) { return label > 1; })) {
    return absl::DataLossError("an impossible number or label");
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
