#ifndef COMERA_WORKER_TRAINER_DATA_CLICKS_SYNTHETIC_CLICKS_H_
#define COMERA_WORKER_TRAINER_DATA_CLICKS_SYNTHETIC_CLICKS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/data/clicks/click_source.h"

namespace comera::trainer {

// A click log that is a function of its specification: no row is stored.
//
// Dense features are exponentially distributed, as the logarithms of Criteo's
// counts roughly are. Value k (from 0) of a table of R rows has probability
// log((k + 2) / (k + 1)) / log(R + 1), nearly Zipf's. A row's click is drawn
// with
//   log-odds = bias + sum_j slope_j (x_j - 1) + sum_t weight_t(value of t),
// slopes and weights uniform around 0: one weight for every value of every
// table, without any structure that a compressed table could profit from.
class SyntheticClicks : public ClickSource {
 public:
  // `spec` with its defaults filled in. InvalidArgument names the field.
  static absl::StatusOr<std::unique_ptr<SyntheticClicks>> Create(
      const v1::SyntheticClicks& spec);

  const ClickShape& shape() const override { return shape_; }
  int64_t rows(Part part) const override {
    return part == Part::kTrain        ? train_rows_
           : part == Part::kValidation ? validation_rows_
                                       : 0;
  }
  int32_t Read(Part part, int64_t row, float* dense, int32_t* categories,
               int64_t stride) const override;
  bool knows_truth() const override { return true; }
  double TrueLogit(Part part, int64_t row) const override;

 private:
  explicit SyntheticClicks(const v1::SyntheticClicks& spec);
  // Calls feature(j, x) and category(t, value), in order; returns the uniform
  // number that the label is drawn with.
  template <typename Feature, typename Category>
  double Visit(Part part, int64_t row, const Feature& feature,
               const Category& category) const;
  double Weight(int64_t table, int64_t value) const;

  const uint64_t seed_;
  const int64_t train_rows_;
  const int64_t validation_rows_;
  ClickShape shape_;
  std::vector<double> slopes_;
  std::vector<double> log_rows_;  // log(R + 1) of every table
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CLICKS_SYNTHETIC_CLICKS_H_
