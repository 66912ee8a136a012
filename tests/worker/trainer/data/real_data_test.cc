// The formats on the files that people really have.
#include <cmath>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/training_data.h"

namespace comera::trainer {
namespace {

TEST(RealDataTest, Mnli) {
  v1::JobSpec spec;
  spec.mutable_model()->set_family(v1::ModelSpec::ENCODER_CLASSIFIER);
  spec.mutable_model()->set_classes(3);
  v1::DataSpec* data = spec.mutable_data();
  data->set_max_length(128);
  data->mutable_tokenizer()->set_kind(v1::TokenizerSpec::WORDPIECE);
  data->mutable_tokenizer()->set_vocabulary_file(
      SharedFile("data/vocab/bert-uncased/vocab.txt"));
  data->mutable_glue_tsv()->set_train(SharedFile("data/mnli/train.tsv.gz"));
  data->mutable_glue_tsv()->set_validation(
      SharedFile("data/mnli/dev_matched.tsv"));
  if (data->glue_tsv().train().empty()) {
    GTEST_SKIP() << "COMERA_SHARED_DIR has no MNLI";
  }
  ASSERT_OK_AND_ASSIGN(const auto opened, TrainingData::Open(spec, {}));
  EXPECT_EQ(opened->train_samples(), 29339);
  EXPECT_EQ(opened->validation_samples(), 9815);
  EXPECT_NEAR(opened->baseline_loss(), std::log(3.0), 1e-3);
  Batch batch;
  ASSERT_OK(opened->ValidationBatch(0, 9815, &batch));
  std::vector<int> counts(3, 0);
  for (const int32_t label : batch.labels) ++counts[label];
  // Sorted: contradiction, entailment, neutral.
  EXPECT_EQ(counts, std::vector<int>({3213, 3479, 3123}));
  // "The new rights are nice enough" / "Everyone really likes ..."
  EXPECT_EQ(std::vector<int32_t>(batch.ids.begin(), batch.ids.begin() + 10),
            std::vector<int32_t>(
                {101, 1996, 2047, 2916, 2024, 3835, 2438, 102, 3071, 2428}));
}

TEST(RealDataTest, CodeSearchNet) {
  v1::JobSpec spec;
  spec.mutable_model()->set_family(v1::ModelSpec::MASKED_LM);
  v1::DataSpec* data = spec.mutable_data();
  data->set_max_length(128);
  data->mutable_jsonl()->set_train(
      SharedFile("data/code/csn_ruby_valid.jsonl.gz"));
  data->mutable_jsonl()->set_validation(data->jsonl().train());
  if (data->jsonl().train().empty()) {
    GTEST_SKIP() << "COMERA_SHARED_DIR has no CodeSearchNet";
  }
  data->mutable_tokenizer()->set_kind(v1::TokenizerSpec::BYTE_BPE);
  data->mutable_tokenizer()->set_train_vocabulary_size(1000);
  ASSERT_OK_AND_ASSIGN(const auto opened, TrainingData::Open(spec, {}));
  EXPECT_EQ(opened->vocabulary_size(), 1000);
  EXPECT_GE(opened->train_samples(), 1400);
  EXPECT_LT(opened->baseline_loss(), std::log(1000));
  EXPECT_GT(opened->baseline_loss(), 3);
}

}  // namespace
}  // namespace comera::trainer
