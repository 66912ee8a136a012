// The assumed shape of click logs that are not read.
#include "worker/trainer/describe/described_clicks.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/planning/step_prediction.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DescribedClicksTest, TheSyntheticLogSaysItself) {
  v1::JobSpec spec;
  auto& clicks = *spec.mutable_data()->mutable_synthetic_clicks();
  clicks.set_dense_features(2);
  for (int64_t rows : {70, 5}) clicks.add_table_rows(rows);
  std::vector<std::string> assumptions;
  const ClickShape shape = DescribedClicks(spec, &assumptions);
  EXPECT_EQ(shape.dense_features, 2);
  EXPECT_THAT(shape.table_rows, ElementsAre(70, 5));
  EXPECT_THAT(assumptions, IsEmpty());
}

TEST(DescribedClicksTest, CriteoIsAssumedToBeKaggles) {
  v1::JobSpec spec;
  spec.mutable_data()->mutable_criteo_tsv()->set_max_table_rows(1000);
  std::vector<std::string> assumptions;
  const ClickShape shape = DescribedClicks(spec, &assumptions);
  EXPECT_EQ(shape.dense_features, 13);
  ASSERT_EQ(shape.tables(), 26);
  EXPECT_EQ(shape.table_rows[1], 583);
  EXPECT_EQ(shape.table_rows[2], 1000);  // 10,131,227
  EXPECT_THAT(assumptions, ElementsAre(HasSubstr("Kaggle")));
}

TEST(DescribedClicksTest, CompressedTablesTakeLessOfAPredictedStep) {
  v1::JobSpec spec;
  spec.mutable_model()->set_family(v1::ModelSpec::DLRM);
  spec.mutable_data()->mutable_synthetic_clicks()->add_table_rows(50000);
  spec = WithDefaults(spec);
  std::vector<std::string> assumptions;
  const ClickShape shape = DescribedClicks(spec, &assumptions);
  ASSERT_OK_AND_ASSIGN(const ModelConfig small, MakeModelConfig(spec, shape));
  spec.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  ASSERT_OK_AND_ASSIGN(const ModelConfig dense, MakeModelConfig(spec, shape));
  ASSERT_OK_AND_ASSIGN(const StepPrediction of_small,
                       PredictStep(small, 64, {}));
  ASSERT_OK_AND_ASSIGN(const StepPrediction of_dense,
                       PredictStep(dense, 64, {}));
  EXPECT_LT(of_small.parameter_bytes, of_dense.parameter_bytes / 2);
  EXPECT_LT(of_small.optimizer.seconds, of_dense.optimizer.seconds);
  EXPECT_GT(of_small.forward.multiply_adds, 0);
}

}  // namespace
}  // namespace comera::trainer
