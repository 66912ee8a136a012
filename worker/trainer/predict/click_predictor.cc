// Answers requests with a DLRM.
#include "worker/trainer/predict/click_predictor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/data/clicks/criteo_cells.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {

// Rows that wait to go through the model together.
struct ClickPredictor::Pass {
  const v1::PredictRequest* request = nullptr;
  v1::PredictResponse* response = nullptr;
  std::vector<int> rows;
  std::vector<float> numbers;       // (rows, numbers)
  std::vector<int32_t> categories;  // (rows, tables)
};

absl::StatusOr<std::unique_ptr<Predictor>> ClickPredictor::Create(
    const std::string& directory, PredictorParts parts) {
  auto predictor = absl::WrapUnique(new ClickPredictor(std::move(parts)));
  if (predictor->served_.criteo()) {
    ASSIGN_OR_RETURN(CategoryTables categories,
                     CategoryTables::Load(directory));
    const ClickShape& shape = predictor->parts_.config.clicks;
    bool fits = categories.size() == shape.tables();
    for (int64_t t = 0; fits && t < shape.tables(); ++t) {
      fits = categories.tables()[t].rows == shape.table_rows[t];
    }
    if (!fits) {
      return absl::DataLossError(absl::StrCat(
          directory, "/", CategoryTables::kFile, ": not this model's tables"));
    }
    predictor->categories_ = std::move(categories);
  }
  return predictor;
}

absl::StatusOr<int32_t> ClickPredictor::TableRow(
    int64_t table, const std::string& text) const {
  if (categories_) {
    uint64_t value = 0;
    if (ParseCriteoCategory(text, &value)) {
      return categories_->Row(table, value);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "categories[", table, "]: '", Printable(text), "' is not at most ",
        kCriteoDigits, " hexadecimal digits"));
  }
  const int64_t rows = parts_.config.clicks.table_rows[table];
  int32_t row = 0;
  if (absl::SimpleAtoi(text, &row) && row >= 0 && row < rows) return row;
  return absl::InvalidArgumentError(
      absl::StrCat("categories[", table, "]: '", Printable(text),
                   "' is no row of a table of ", rows));
}

absl::Status ClickPredictor::AddRow(const v1::PredictRow& row,
                                    Pass* pass) const {
  const ClickShape& shape = parts_.config.clicks;
  if (!row.text().empty() || row.has_text_pair()) {
    return absl::InvalidArgumentError(
        "the model takes numbers and categories, not text");
  }
  if (row.numbers_size() != shape.dense_features) {
    return absl::InvalidArgumentError(absl::StrCat(
        "numbers: ", row.numbers_size(), ", not ", shape.dense_features));
  }
  if (row.categories_size() != shape.tables()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "categories: ", row.categories_size(), ", not ", shape.tables()));
  }
  if (row.has_label() && row.label() != "0" && row.label() != "1") {
    return absl::InvalidArgumentError(absl::StrCat(
        "label: '", Printable(row.label()), "' is neither 0 nor 1"));
  }
  std::vector<float> numbers;
  for (const double number : row.numbers()) {
    const float value =
        categories_ ? CriteoNumber(number) : static_cast<float>(number);
    if (!std::isfinite(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("numbers[", numbers.size(), "]: not a finite number"));
    }
    numbers.push_back(value);
  }
  std::vector<int32_t> categories;
  for (const std::string& text : row.categories()) {
    ASSIGN_OR_RETURN(const int32_t at,
                     TableRow(static_cast<int64_t>(categories.size()), text));
    categories.push_back(at);
  }
  pass->rows.push_back(pass->response->predictions_size() - 1);
  pass->numbers.insert(pass->numbers.end(), numbers.begin(), numbers.end());
  pass->categories.insert(pass->categories.end(), categories.begin(),
                          categories.end());
  return absl::OkStatus();
}

absl::Status ClickPredictor::Flush(Pass* pass) {
  if (pass->rows.empty()) return absl::OkStatus();
  const auto size = static_cast<int64_t>(pass->rows.size());
  const int64_t tables = parts_.config.clicks.tables();
  Batch batch;
  batch.size = size;
  batch.length = 1;
  batch.dense = std::move(pass->numbers);
  batch.categories.resize(size * tables);
  for (int64_t i = 0; i < size; ++i) {
    batch.label_rows.push_back(static_cast<int32_t>(i));
    batch.labels.push_back(0);  // only logits are looked at
    for (int64_t t = 0; t < tables; ++t) {
      batch.categories[t * size + i] = pass->categories[i * tables + t];
    }
  }
  ASSIGN_OR_RETURN(const std::vector<float> logits,
                   parts_.scorer->Logits(batch));
  for (int64_t i = 0; i < size; ++i) {
    const int row = pass->rows[i];
    v1::Prediction* prediction = pass->response->mutable_predictions(row);
    const double logit = logits[i];
    prediction->set_class_index(logit > 0 ? 1 : 0);
    prediction->set_label(logit > 0 ? "1" : "0");
    prediction->add_probabilities(
        static_cast<float>(1 / (1 + std::exp(logit))));
    prediction->add_probabilities(
        static_cast<float>(1 / (1 + std::exp(-logit))));
    if (pass->request->logits()) prediction->add_logits(logits[i]);
    const v1::PredictRow& asked = pass->request->rows(row);
    if (asked.has_label()) {
      const double wrong = asked.label() == "1" ? -logit : logit;
      prediction->set_loss(std::max(wrong, 0.0) +
                           std::log1p(std::exp(-std::abs(wrong))));
    }
  }
  pass->rows.clear();
  pass->numbers.clear();
  pass->categories.clear();
  return absl::OkStatus();
}

absl::Status ClickPredictor::Answer(const v1::PredictRequest& request,
                                    v1::PredictResponse* response) {
  Pass pass;
  pass.request = &request;
  pass.response = response;
  for (const v1::PredictRow& row : request.rows()) {
    v1::Prediction* prediction = response->add_predictions();
    const absl::Status status = AddRow(row, &pass);
    if (!status.ok()) prediction->set_error(std::string(status.message()));
    if (static_cast<int64_t>(pass.rows.size()) == parts_.scorer->batch_size()) {
      RETURN_IF_ERROR(Flush(&pass));
    }
  }
  return Flush(&pass);
}

}  // namespace comera::trainer
