// Training a DLRM: what the trainer promises for encoders holds here too.
#include <cmath>
#include <memory>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "tests/worker/trainer/tiny_clicks.h"
#include "worker/trainer/data/open_training_data.h"

namespace comera::trainer {
namespace {

class DlrmTrainerTest : public ::testing::Test {
 protected:
  // A run of `spec` on its data.
  std::unique_ptr<TestRun> NewRun(const v1::JobSpec& spec) {
    auto run = std::make_unique<TestRun>();
    run->spec = spec;
    if (data_ == nullptr) {
      auto data = OpenTrainingData(spec, {});
      EXPECT_OK(data);
      data_ = *std::move(data);
    }
    run->other_data = data_.get();
    return run;
  }

  std::unique_ptr<TrainingData> data_;
};

std::vector<v1::StepMetrics> Validations(const TestRun& run) {
  std::vector<v1::StepMetrics> validations;
  for (const v1::TrainerEvent& event : run.events) {
    if (event.metrics().has_validation_loss()) {
      validations.push_back(event.metrics());
    }
  }
  return validations;
}

TEST_F(DlrmTrainerTest, LearnsAndTellsTheAuc) {
  v1::JobSpec spec = TinyClicksSpec();
  spec.mutable_objective()->mutable_early()->set_steps(150);
  spec.mutable_objective()->mutable_early()->set_gamma(0.001);
  const auto run = NewRun(spec);
  run->Run();
  ASSERT_OK(run->end);
  const v1::RunInfo& info = run->events.front().run_info();
  EXPECT_GT(info.ideal_auc(), 0.7);
  EXPECT_GT(info.baseline_loss(), 0.5);
  const auto validations = Validations(*run);
  ASSERT_EQ(validations.size(), 15u);
  const v1::StepMetrics& first = validations.front();
  const v1::StepMetrics& last = validations.back();
  EXPECT_GT(last.validation_auc(), 0.6);
  EXPECT_LT(last.validation_auc(), info.ideal_auc() + 0.02);
  EXPECT_LT(last.validation_loss(), first.validation_loss());
  EXPECT_LT(last.validation_loss(), info.baseline_loss());
  // The validation set is the whole one, so its baseline is the denominator.
  EXPECT_NEAR(last.validation_normalized_entropy(),
              last.validation_loss() / info.baseline_loss(), 1e-6);
  EXPECT_EQ(run->end->result.validation_auc(), last.validation_auc());
  EXPECT_EQ(run->end->result.validation_normalized_entropy(),
            last.validation_normalized_entropy());
  EXPECT_EQ(run->end->result.outcome(), v1::COMPLETED);
  EXPECT_FALSE(run->exported.empty());
}

TEST_F(DlrmTrainerTest, RanksGiveWhatOneRankGives) {
  const auto one = NewRun(TinyClicksSpec()), many = NewRun(TinyClicksSpec());
  one->Run(1);
  many->Run(4);
  ASSERT_OK(one->end);
  for (const absl::Status& status : many->statuses) ASSERT_OK(status);
  const auto want = one->Losses(), got = many->Losses();
  ASSERT_EQ(want.size(), 30u);
  ASSERT_EQ(got.size(), 30u);
  for (const auto& [step, loss] : want) {
    EXPECT_NEAR(got.at(step), loss, 1e-5 * loss) << "step " << step;
  }
  // Predictions are nearly equal after so few steps, so rounding moves their
  // order, and with it the AUC, more than the losses.
  EXPECT_NEAR(many->end->result.validation_auc(),
              one->end->result.validation_auc(), 2e-2);
  EXPECT_NEAR(many->end->result.validation_normalized_entropy(),
              one->end->result.validation_normalized_entropy(), 1e-4);
}

TEST_F(DlrmTrainerTest, ResumingRepeatsTheUninterruptedRun) {
  v1::JobSpec spec = TinyClicksSpec();
  // Strong enough for ranks to die on the way.
  spec.mutable_objective()->mutable_early()->set_gamma(20);
  spec.mutable_objective()->mutable_early()->set_steps(60);
  const auto whole = NewRun(spec), begun = NewRun(spec), resumed = NewRun(spec);
  whole->Run();
  FakeDisk disk;
  begun->disk = resumed->disk = &disk;
  begun->stop_after_step = 33;
  begun->Run();
  ASSERT_OK(begun->end);
  EXPECT_TRUE(begun->end->stopped);
  resumed->resume = true;
  resumed->Run();
  ASSERT_OK(resumed->end);
  EXPECT_GT(resumed->events.front().run_info().resumed_from_step(), 30);
  EXPECT_EQ(resumed->exported, whole->exported);
  EXPECT_EQ(resumed->end->result.validation_auc(),
            whole->end->result.validation_auc());
  // Something was compacted, or this test would show little.
  EXPECT_LT(whole->end->result.size_parameters(),
            whole->events.front().run_info().initial_parameters());
}

TEST_F(DlrmTrainerTest, MeetsBothTargets) {
  v1::JobSpec spec = TinyClicksSpec();
  spec.mutable_objective()->mutable_early()->set_steps(100);
  spec.mutable_objective()->mutable_early()->set_gamma(0.001);
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  late.set_target_loss(0.69);
  late.set_target_ratio(0.97);
  late.set_max_steps(300);
  const auto run = NewRun(WithDefaults(spec));
  run->Run();
  ASSERT_OK(run->end);
  EXPECT_EQ(run->end->result.outcome(), v1::TARGET_MET)
      << run->end->result.reason();
}

TEST_F(DlrmTrainerTest, RealCriteoRowsTrain) {
  const std::string path =
      SharedFile("data/criteo/criteo_1tb_day0_rows_0000_0799.tsv");
  if (path.empty()) GTEST_SKIP() << "COMERA_SHARED_DIR has no Criteo";
  v1::JobSpec spec = TinyClicksSpec();
  v1::CriteoTsv& criteo = *spec.mutable_data()->mutable_criteo_tsv();
  criteo.add_files(path);
  criteo.set_parts(2);  // the default leaves no click to validate on
  criteo.set_max_table_rows(50);
  spec.mutable_objective()->mutable_early()->set_gamma(0.001);
  spec.mutable_optimizer()->set_learning_rate_other(0.005);
  const auto run = NewRun(spec);
  run->Run();
  ASSERT_OK(run->end);
  EXPECT_EQ(run->events.front().run_info().train_samples(), 400);
  EXPECT_FALSE(run->events.front().run_info().has_ideal_auc());
  const auto validations = Validations(*run);
  ASSERT_EQ(validations.size(), 3u);
  EXPECT_LT(validations.back().validation_loss(), 0.5);
  EXPECT_TRUE(validations.back().has_validation_auc());
}

}  // namespace
}  // namespace comera::trainer
