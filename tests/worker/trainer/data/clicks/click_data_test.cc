// Batches of click logs, on the synthetic log.
#include "worker/trainer/data/clicks/click_data.h"

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "common/area_under_curve.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/clicks/synthetic_clicks.h"
#include "worker/trainer/data/open_training_data.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using Part = ClickSource::Part;

v1::SyntheticClicks Log(int64_t train_rows, int64_t validation_rows) {
  v1::SyntheticClicks log;
  log.set_train_rows(train_rows);
  log.set_validation_rows(validation_rows);
  log.set_seed(3);
  log.set_dense_features(2);
  for (int64_t rows : {1, 4, 50, 100000}) log.add_table_rows(rows);
  return log;
}

std::unique_ptr<SyntheticClicks> Source(const v1::SyntheticClicks& log) {
  auto source = SyntheticClicks::Create(log);
  EXPECT_OK(source);
  return *std::move(source);
}

ClickData Data(int64_t train_rows, int64_t validation_rows) {
  return ClickData(5, Source(Log(train_rows, validation_rows)));
}

TEST(SyntheticClicksTest, RowsAreFunctionsOfSeedAndPlace) {
  const auto source = Source(Log(100, 100)), again = Source(Log(100, 100));
  v1::SyntheticClicks other_log = Log(100, 100);
  other_log.set_seed(4);
  const auto other = Source(other_log);
  std::set<float> seen;
  for (int64_t row = 0; row < 50; ++row) {
    float a[2], b[2], c[2], d[2];
    int32_t ids[4], ids_again[4];
    const int32_t label = source->Read(Part::kTrain, row, a, ids, 1);
    EXPECT_EQ(again->Read(Part::kTrain, row, b, ids_again, 1), label);
    EXPECT_EQ(a[0], b[0]);
    EXPECT_EQ(ids[3], ids_again[3]);
    source->Read(Part::kValidation, row, c, ids_again, 1);
    other->Read(Part::kTrain, row, d, ids_again, 1);
    for (float x : {a[0], c[0], d[0]}) seen.insert(x);
  }
  EXPECT_EQ(seen.size(), 150u);
}

TEST(SyntheticClicksTest, FrequenciesAreZipfs) {
  const auto source = Source(Log(40000, 1));
  std::vector<int64_t> counts(100000);
  double dense_sum = 0;
  for (int64_t row = 0; row < 40000; ++row) {
    float dense[2];
    int32_t ids[4];
    source->Read(Part::kTrain, row, dense, ids, 1);
    EXPECT_EQ(ids[0], 0);
    ASSERT_LT(ids[1], 4);
    ASSERT_GE(ids[3], 0);
    ASSERT_LT(ids[3], 100000);
    ++counts[ids[3]];
    ASSERT_GT(dense[0], 0);
    dense_sum += dense[0];
  }
  EXPECT_NEAR(dense_sum / 40000, 1, 0.02);
  const double unit = 40000 / std::log(100001.0);
  for (int64_t k : {0, 1, 4}) {
    const double expected = unit * std::log((k + 2.0) / (k + 1.0));
    EXPECT_NEAR(counts[k], expected, 5 * std::sqrt(expected)) << k;
  }
}

// The label of a row is drawn with the probability that TrueLogit tells.
TEST(SyntheticClicksTest, TruthIsCalibrated) {
  const auto source = Source(Log(1, 20000));
  double expected[4] = {}, clicks[4] = {}, rows[4] = {};
  for (int64_t row = 0; row < 20000; ++row) {
    float dense[2];
    int32_t ids[4];
    const double logit = source->TrueLogit(Part::kValidation, row);
    const int bin = logit < -2 ? 0 : logit < -1 ? 1 : logit < 0 ? 2 : 3;
    expected[bin] += 1 / (1 + std::exp(-logit));
    clicks[bin] += source->Read(Part::kValidation, row, dense, ids, 1);
    rows[bin] += 1;
  }
  for (int bin = 0; bin < 4; ++bin) {
    ASSERT_GT(rows[bin], 300);
    EXPECT_NEAR(clicks[bin], expected[bin], 4 * std::sqrt(expected[bin]));
  }
}

TEST(SyntheticClicksTest, NamesTheFieldThatIsWrong) {
  const auto refused = [](const v1::SyntheticClicks& log, const char* field) {
    EXPECT_THAT(SyntheticClicks::Create(log),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
  };
  refused(Log(0, 1), "train_rows");
  refused(Log(1, -1), "validation_rows");
  v1::SyntheticClicks log = Log(1, 1);
  log.set_dense_features(0);
  refused(log, "dense_features");
  log = Log(1, 1);
  log.set_table_rows(2, 0);
  refused(log, "table_rows");
  log.clear_table_rows();
  refused(log, "table_rows");
}

TEST(ClickDataTest, SharesMakeUpTheBatch) {
  const ClickData data = Data(100, 10);
  Batch whole, part;
  ASSERT_OK(data.TrainBatch(3, 8, 0, 1, &whole));
  EXPECT_EQ(whole.size, 8);
  EXPECT_EQ(whole.length, 1);
  ASSERT_EQ(whole.labels.size(), 8u);
  ASSERT_EQ(whole.dense.size(), 16u);
  ASSERT_EQ(whole.categories.size(), 32u);
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_OK(data.TrainBatch(3, 8, rank, 4, &part));
    EXPECT_EQ(part.first_sample, 2 * rank);
    for (int i = 0; i < 2; ++i) {
      const int at = 2 * rank + i;
      EXPECT_EQ(part.labels[i], whole.labels[at]);
      for (int j = 0; j < 2; ++j) {
        EXPECT_EQ(part.dense[2 * i + j], whole.dense[2 * at + j]);
      }
      for (int t = 0; t < 4; ++t) {
        EXPECT_EQ(part.categories[2 * t + i], whole.categories[8 * t + at]);
      }
    }
  }
}

TEST(ClickDataTest, EachEpochVisitsEveryRowOnce) {
  const ClickData data = Data(60, 10);
  std::multiset<float> epochs[2];
  std::vector<float> order[2];
  Batch batch;
  for (int64_t step = 0; step < 12; ++step) {
    ASSERT_OK(data.TrainBatch(step, 10, 0, 1, &batch));
    for (int i = 0; i < 10; ++i) {
      epochs[step / 6].insert(batch.dense[2 * i]);
      order[step / 6].push_back(batch.dense[2 * i]);
    }
  }
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_EQ(std::set<float>(epochs[0].begin(), epochs[0].end()).size(), 60u);
  EXPECT_NE(order[0], order[1]);
}

TEST(ClickDataTest, BaselineAndIdealAuc) {
  const ClickData data = Data(10, 4000);
  Batch batch;
  ASSERT_OK(data.ValidationBatch(0, 5000, &batch));
  ASSERT_EQ(batch.size, 4000);
  double clicks = 0;
  for (int32_t label : batch.labels) clicks += label;
  const double p = clicks / 4000;
  EXPECT_GT(p, 0.1);
  EXPECT_LT(p, 0.5);
  EXPECT_NEAR(data.baseline_loss(),
              -(p * std::log(p) + (1 - p) * std::log(1 - p)), 1e-9);
  ASSERT_TRUE(data.ideal_auc(4000).has_value());
  EXPECT_GT(*data.ideal_auc(4000), 0.7);
  EXPECT_LT(*data.ideal_auc(4000), 0.9);
  EXPECT_NE(*data.ideal_auc(2000), *data.ideal_auc(4000));
  EXPECT_EQ(*data.ideal_auc(9000), *data.ideal_auc(4000));
}

TEST(ClickDataTest, ImpossibleBatchesAreRefused) {
  const ClickData data = Data(100, 10);
  Batch batch;
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(data.TrainBatch(-1, 8, 0, 1, &batch), refused);
  EXPECT_THAT(data.TrainBatch(0, 0, 0, 1, &batch), refused);
  EXPECT_THAT(data.TrainBatch(0, 8, 2, 2, &batch), refused);
  EXPECT_THAT(data.TrainBatch(0, 9, 0, 2, &batch), refused);
  EXPECT_THAT(data.TrainBatch(INT64_MAX, 8, 0, 1, &batch), refused);
  EXPECT_THAT(data.TrainBatch(0, INT64_MAX, 0, 1, &batch), refused);
  EXPECT_THAT(data.ValidationBatch(11, 1, &batch), refused);
  EXPECT_THAT(data.ValidationBatch(0, -1, &batch), refused);
  ASSERT_OK(data.ValidationBatch(10, 1, &batch));
  EXPECT_EQ(batch.size, 0);
}

TEST(ClickDataTest, OpensByFamily) {
  v1::JobSpec spec;
  spec.mutable_model()->set_family(v1::ModelSpec::DLRM);
  *spec.mutable_data()->mutable_synthetic_clicks() = Log(100, 10);
  ASSERT_OK_AND_ASSIGN(const auto data, OpenTrainingData(spec, {}));
  EXPECT_EQ(data->train_samples(), 100);
  EXPECT_EQ(data->validation_samples(), 10);
  EXPECT_EQ(data->vocabulary_size(), 0);
  ASSERT_NE(data->clicks(), nullptr);
  EXPECT_EQ(data->clicks()->table_rows[2], 50);
  spec.mutable_data()->mutable_jsonl();
  EXPECT_THAT(OpenTrainingData(spec, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("criteo_tsv or synthetic_clicks")));
}

}  // namespace
}  // namespace comera::trainer
