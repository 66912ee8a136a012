// Assumes the shape of a click log that is not read.
#include "worker/trainer/describe/described_clicks.h"

#include <algorithm>
#include <cstdint>

#include "proto/dlrm_defaults.h"
#include "worker/trainer/data/batch/click_shape.h"

namespace comera::trainer {
namespace {

constexpr int64_t kCriteoIntegers = 13;

}  // namespace

ClickShape DescribedClicks(const v1::JobSpec& spec,
                           std::vector<std::string>* assumptions) {
  ClickShape shape;
  if (spec.data().has_synthetic_clicks()) {
    const v1::SyntheticClicks& clicks = spec.data().synthetic_clicks();
    shape.dense_features = clicks.dense_features();
    shape.table_rows.assign(clicks.table_rows().begin(),
                            clicks.table_rows().end());
    return shape;
  }
  shape.dense_features = kCriteoIntegers;
  const int64_t most = spec.data().criteo_tsv().max_table_rows();
  for (int64_t rows : CriteoKaggleRows()) {
    shape.table_rows.push_back(most > 0 ? std::min(rows, most) : rows);
  }
  assumptions->push_back(
      "tables: as many rows as those of Criteo Kaggle, the files are not read");
  return shape;
}

}  // namespace comera::trainer
