// Tests which phase's data a step gets.
#include "worker/trainer/data/batch/phased_data.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/open_training_data.h"

namespace comera::trainer {
namespace {

class PhasedDataTest : public ::testing::Test {
 protected:
  PhasedDataTest() {
    std::string lines;
    for (int i = 0; i < 60; ++i) {
      std::string code;
      for (int j = 0; j <= i % 7; ++j) {
        absl::StrAppend(&code, "x", j, " = f", i, "(x", j + 1, ") + ", j, "; ");
      }
      absl::StrAppend(&lines, R"({"docstring": "Does it.", "code": ")", code,
                      "\"}\n");
    }
    spec_.mutable_model()->set_family(v1::ModelSpec::MASKED_LM);
    spec_.mutable_training()->set_seed(5);
    v1::DataSpec* data = spec_.mutable_data();
    data->set_max_length(64);
    data->mutable_tokenizer()->set_kind(v1::TokenizerSpec::BYTE_BPE);
    data->mutable_tokenizer()->set_train_vocabulary_size(300);
    data->mutable_jsonl()->set_train(folder_.Write("train.jsonl", lines));
    data->mutable_jsonl()->set_validation(folder_.Write("v.jsonl", lines));
    data->mutable_jsonl()->add_fields("docstring");
    data->mutable_jsonl()->add_fields("code");
  }

  std::unique_ptr<TrainingData> Open(const v1::JobSpec& spec) {
    auto data = OpenTrainingData(spec, {});
    EXPECT_OK(data);
    return *std::move(data);
  }
  std::unique_ptr<TrainingData> OpenAtLength(int32_t length) {
    v1::JobSpec spec = spec_;
    spec.mutable_data()->set_max_length(length);
    return Open(spec);
  }

  TempFolder folder_;
  v1::JobSpec spec_;
};

void ExpectSameBatch(const TrainingData& a, int64_t a_step,
                     const TrainingData& b, int64_t b_step, int64_t size) {
  Batch batch_a, batch_b;
  ASSERT_OK(a.TrainBatch(a_step, size, 0, 1, &batch_a));
  ASSERT_OK(b.TrainBatch(b_step, size, 0, 1, &batch_b));
  EXPECT_EQ(batch_a.length, batch_b.length);
  EXPECT_EQ(batch_a.ids, batch_b.ids);
  EXPECT_EQ(batch_a.label_rows, batch_b.label_rows);
}

TEST_F(PhasedDataTest, EachPhaseIsTheCorpusCutToItsLength) {
  for (const auto& [steps, length] :
       {std::pair(3, 16), std::pair(4, 48), std::pair(2, 16)}) {
    v1::Phase* phase = spec_.mutable_training()->add_phases();
    phase->set_steps(steps);
    phase->set_max_length(length);
  }
  const auto phased = Open(spec_);
  spec_.mutable_training()->clear_phases();
  const auto small = OpenAtLength(16), large = OpenAtLength(48);
  EXPECT_GT(small->train_samples(), large->train_samples());
  ExpectSameBatch(*phased, 0, *small, 0, 4);
  ExpectSameBatch(*phased, 2, *small, 2, 4);
  ExpectSameBatch(*phased, 3, *large, 0, 2);
  ExpectSameBatch(*phased, 6, *large, 3, 2);
  ExpectSameBatch(*phased, 7, *small, 0, 4);
  ExpectSameBatch(*phased, 20, *small, 13, 4);  // the late stage
  // Reports on the samples are those of the last phase.
  EXPECT_EQ(phased->train_samples(), small->train_samples());
  EXPECT_EQ(phased->validation_samples(), small->validation_samples());
  EXPECT_EQ(phased->baseline_loss(), small->baseline_loss());
  Batch batch;
  ASSERT_OK(phased->ValidationBatch(0, 2, &batch));
  EXPECT_EQ(batch.length, 16);
}

}  // namespace
}  // namespace comera::trainer
