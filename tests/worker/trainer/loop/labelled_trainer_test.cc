// A classifier that is trained on a labelled CSV file to an accuracy: the whole
// validation set decides, and the test set is looked at once.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/validation/job_validation.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/open_training_data.h"

namespace comera::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Texts with three telling words among six: rows of a CSV file.
std::string Rows(int count, int seed) {
  std::string rows = "sentence,mood\n";
  uint64_t state = 77 + seed;
  const auto next = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  for (int i = 0; i < count; ++i) {
    const bool good = next(2) == 1;
    rows += '"';
    const uint64_t telling = next(2);
    for (uint64_t word = 0; word < 6; ++word) {
      if (word % 2 == telling) {
        absl::StrAppend(&rows, good ? "good" : "bad", ", ");
      } else {
        absl::StrAppend(&rows, "w", next(9), word == 2 ? "\n" : " ");
      }
    }
    absl::StrAppend(&rows, "\",", good ? "happy" : "sad", "\n");
  }
  return rows;
}

class LabelledTrainerTest : public ::testing::Test {
 protected:
  LabelledTrainerTest() {
    const bool parsed = google::protobuf::TextFormat::ParseFromString(
        R"pb(
          model {
            family: ENCODER_CLASSIFIER
            layers: 1
            hidden: 16
            heads: 2
            dropout_off: true
          }
          data {
            labelled_text { text: "sentence" label: "mood" }
            tokenizer { kind: BYTE_BPE train_vocabulary_size: 300 }
            max_length: 32
          }
          compression {
            embedding { dense: true }
            attention { dense: true }
            compact_every_steps: 20
          }
          objective {
            early { steps: 60 gamma: 0.001 }
            late { target_accuracy: 0.85 target_ratio: 1 max_steps: 300 }
          }
          optimizer {
            kind: ADAMW
            learning_rate_cores: 0.003
            learning_rate_ranks: 0.003
            learning_rate_other: 0.003
          }
          training {
            batch_size: 16
            seed: 3
            validate_every_steps: 20
            validation_samples: 32
          }
        )pb",
        &spec_);
    EXPECT_TRUE(parsed);
    v1::LabelledText& labelled = *spec_.mutable_data()->mutable_labelled_text();
    labelled.set_train(folder_.Write("train.csv", Rows(600, 1)));
    labelled.set_test(folder_.Write("test.csv", Rows(90, 2)));
    labelled.set_validation_fraction(0.25);
  }

  void Run(int members = 1) {
    EXPECT_TRUE(ValidateJobSpec(spec_, &run_.spec).empty());
    auto data = OpenTrainingData(run_.spec, {});
    ASSERT_OK(data);
    data_ = *std::move(data);
    run_.spec.mutable_model()->set_classes(data_->classes());
    run_.other_data = data_.get();
    run_.Run(members);
    for (const absl::Status& status : run_.statuses) ASSERT_OK(status);
  }
  const v1::TrainingResult& result() const { return run_.end->result; }

  TempFolder folder_;
  v1::JobSpec spec_;
  std::unique_ptr<TrainingData> data_;
  TestRun run_;
};

TEST_F(LabelledTrainerTest, MeetsAnAccuracyAndTellsTheTestSet) {
  Run();
  EXPECT_EQ(data_->classes(), 2);
  EXPECT_EQ(data_->test_samples(), 90);
  EXPECT_GT(data_->validation_samples(), 100);
  const v1::RunInfo& info = run_.events.front().run_info();
  EXPECT_EQ(info.test_samples(), 90);
  EXPECT_EQ(result().outcome(), v1::TARGET_MET) << result().reason();
  EXPECT_GE(result().validation_accuracy(), 0.85);
  EXPECT_LT(result().step(), 360);
  // Correct predictions of the whole set, not of the sample of 32.
  const double correct = result().validation_accuracy() *
                         static_cast<double>(data_->validation_samples());
  EXPECT_NEAR(correct, std::round(correct), 1e-6);
  EXPECT_THAT(result().reason(),
              AllOf(HasSubstr("both targets met: validation accuracy "),
                    HasSubstr("(target 0.8500)")));
  EXPECT_GT(result().validation_f1(), 0.8);
  EXPECT_GT(result().validation_mcc(), 0.6);
  EXPECT_GT(result().validation_auc(), 0.85);
  EXPECT_FALSE(result().has_validation_normalized_entropy());
  ASSERT_EQ(result().targets_size(), 1);
  EXPECT_EQ(result().targets(0).target_loss(), 0);
  EXPECT_EQ(result().targets(0).validation_quality(),
            result().validation_accuracy());

  ASSERT_TRUE(result().has_test());
  const v1::TestResult& test = result().test();
  EXPECT_EQ(test.samples(), 90);
  EXPECT_GT(test.accuracy(), 0.7);
  EXPECT_NEAR(test.accuracy() * 90, std::round(test.accuracy() * 90), 1e-6);
  EXPECT_TRUE(test.has_f1());
  EXPECT_TRUE(test.has_mcc());
  EXPECT_TRUE(test.has_auc());
}

// The gang takes the same decisions, up to rounding.
TEST_F(LabelledTrainerTest, AGangMeetsItToo) {
  Run(2);
  EXPECT_EQ(result().outcome(), v1::TARGET_MET) << result().reason();
  EXPECT_TRUE(result().has_test());
  EXPECT_GE(result().validation_accuracy(), 0.85);
}

TEST_F(LabelledTrainerTest, ABoundAsksForMore) {
  spec_.mutable_objective()->mutable_late()->set_confidence(0.95);
  Run();
  EXPECT_THAT(result().reason(), HasSubstr("(target 0.8500, 95% bound 0."));
  if (result().outcome() == v1::TARGET_MET) {
    EXPECT_GT(result().validation_accuracy(), 0.89);
  }
}

// The figures of a miss are those of the whole set as well.
TEST_F(LabelledTrainerTest, AMissIsMeasuredOnTheWholeSet) {
  v1::LateStage& late = *spec_.mutable_objective()->mutable_late();
  late.set_target_accuracy(1);
  late.set_max_steps(3);
  spec_.mutable_objective()->mutable_early()->set_steps(2);
  Run(2);
  EXPECT_EQ(result().outcome(), v1::TARGET_MISSED);
  const double correct = result().validation_accuracy() *
                         static_cast<double>(data_->validation_samples());
  EXPECT_NEAR(correct, std::round(correct), 1e-3);
  EXPECT_TRUE(result().has_test());
}

TEST_F(LabelledTrainerTest, AListOfTargetsOfSeveralKinds) {
  v1::LateStage& late = *spec_.mutable_objective()->mutable_late();
  late.clear_target_accuracy();
  late.clear_target_ratio();
  late.set_max_steps(200);
  late.add_targets()->set_target_f1(0.8);
  late.add_targets()->set_target_auc(0.85);
  late.add_targets()->set_target_mcc(1);
  for (v1::Target& target : *late.mutable_targets()) {
    target.set_target_ratio(1);
  }
  Run();
  ASSERT_EQ(result().targets_size(), 3);
  EXPECT_EQ(result().targets(0).outcome(), v1::TARGET_MET);
  EXPECT_GE(result().targets(0).validation_quality(), 0.8);
  EXPECT_EQ(result().targets(1).outcome(), v1::TARGET_MET);
  EXPECT_GE(result().targets(1).validation_quality(), 0.85);
  EXPECT_GT(result().targets(2).validation_quality(), 0.5);
}

TEST_F(LabelledTrainerTest, AnAucNeedsTwoClasses) {
  spec_.mutable_data()->mutable_labelled_text()->set_train(
      folder_.Write("three.csv", Rows(200, 1) + "a,x\nb,y\nc,y\n"));
  spec_.mutable_objective()->mutable_late()->set_target_auc(0.8);
  ASSERT_TRUE(ValidateJobSpec(spec_, &run_.spec).empty());
  auto data = OpenTrainingData(run_.spec, {});
  ASSERT_OK(data);
  run_.spec.mutable_model()->set_classes((*data)->classes());
  run_.other_data = data->get();
  run_.Run();
  EXPECT_THAT(run_.end, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("target_auc")));
}

TEST_F(LabelledTrainerTest, WithoutTargetsTheWholeSetIsReported) {
  spec_.mutable_objective()->clear_late();
  Run();
  EXPECT_EQ(result().outcome(), v1::COMPLETED);
  const double correct = result().validation_accuracy() *
                         static_cast<double>(data_->validation_samples());
  EXPECT_NEAR(correct, std::round(correct), 1e-6);
  EXPECT_TRUE(result().has_test());
}

}  // namespace
}  // namespace comera::trainer
