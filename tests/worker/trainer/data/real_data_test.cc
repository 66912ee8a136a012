// The formats on the files that people really have.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "proto/job_defaults.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/open_training_data.h"

namespace comera::trainer {
namespace {

v1::JobSpec MnliSpec() {
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
  return spec;
}

TEST(RealDataTest, Mnli) {
  const v1::JobSpec spec = MnliSpec();
  if (spec.data().glue_tsv().train().empty()) {
    GTEST_SKIP() << "COMERA_SHARED_DIR has no MNLI";
  }
  ASSERT_OK_AND_ASSIGN(const auto opened, OpenTrainingData(spec, {}));
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
  const std::vector<int32_t> first = {101,  1996, 2047, 2916, 2024,
                                      3835, 2438, 102,  3071, 2428};
  int found = 0;
  for (int64_t row = 0; row < batch.size; ++row) {
    found += std::equal(first.begin(), first.end(),
                        batch.ids.begin() + row * batch.length);
  }
  EXPECT_EQ(found, 1);
}

int64_t Tokens(const Batch& batch, int64_t first, int64_t samples) {
  return std::count(batch.mask.begin() + first * batch.length,
                    batch.mask.begin() + (first + samples) * batch.length,
                    1.0f);
}

// The tokens of the busiest member in multiples of the mean, over many steps.
struct Busiest {
  double dealt = 0, contiguous = 0;
};

Busiest BusiestOf(const TrainingData& data, int members) {
  constexpr int kSteps = 300, kBatch = 32;
  const int share = kBatch / members;
  Busiest busiest;
  for (int64_t step = 0; step < kSteps; ++step) {
    Batch whole, part;
    EXPECT_OK(data.TrainBatch(step, kBatch, 0, 1, &whole));
    int64_t dealt = 0, contiguous = 0;
    for (int member = 0; member < members; ++member) {
      EXPECT_OK(data.TrainBatch(step, kBatch, member, members, &part));
      dealt = std::max(dealt, Tokens(part, 0, share));
      contiguous = std::max(contiguous, Tokens(whole, member * share, share));
    }
    const double mean = static_cast<double>(Tokens(whole, 0, kBatch)) / members;
    busiest.dealt += static_cast<double>(dealt) / mean / kSteps;
    busiest.contiguous += static_cast<double>(contiguous) / mean / kSteps;
  }
  std::printf("busiest of %d members: %.3f of the mean, contiguous %.3f\n",
              members, busiest.dealt, busiest.contiguous);
  return busiest;
}

TEST(RealDataTest, MembersGetEquallyManyTokensOfMnli) {
  const v1::JobSpec spec = MnliSpec();
  if (spec.data().glue_tsv().train().empty()) {
    GTEST_SKIP() << "COMERA_SHARED_DIR has no MNLI";
  }
  ASSERT_OK_AND_ASSIGN(const auto opened, OpenTrainingData(spec, {}));
  const Busiest of_4 = BusiestOf(*opened, 4), of_16 = BusiestOf(*opened, 16);
  EXPECT_LE(of_4.dealt, 1.02);
  EXPECT_LE(of_16.dealt, 1.31);
  EXPECT_LT(of_4.dealt, of_4.contiguous);
  EXPECT_LT(of_16.dealt, of_16.contiguous);
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
  ASSERT_OK_AND_ASSIGN(const auto opened, OpenTrainingData(spec, {}));
  EXPECT_EQ(opened->vocabulary_size(), 1000);
  EXPECT_GE(opened->train_samples(), 1400);
  EXPECT_LT(opened->baseline_loss(), std::log(1000));
  EXPECT_GT(opened->baseline_loss(), 3);
}

TEST(RealDataTest, TinyShakespeare) {
  v1::JobSpec spec;
  spec.mutable_model()->set_family(v1::ModelSpec::CAUSAL_LM);
  v1::DataSpec* data = spec.mutable_data();
  data->set_max_length(256);
  data->mutable_text()->add_train(SharedFile("data/text/tinyshakespeare.txt"));
  if (data->text().train(0).empty()) {
    GTEST_SKIP() << "COMERA_SHARED_DIR has no text";
  }
  data->mutable_tokenizer()->set_kind(v1::TokenizerSpec::BYTE_BPE);
  data->mutable_tokenizer()->set_vocabulary_file(
      SharedFile("data/vocab/roberta/vocab.json"));
  data->mutable_tokenizer()->set_merges_file(
      SharedFile("data/vocab/roberta/merges.txt"));
  ASSERT_OK_AND_ASSIGN(const auto opened, OpenTrainingData(spec, {}));
  // GPT-2's tokenizer makes 301,966 and 36,059 tokens of 90% and 10% of the
  // 1,115,394 bytes (nanoGPT, data/shakespeare/readme.md). The cut at a line's
  // end moves few of them.
  EXPECT_EQ(opened->train_samples(), 301966 / 256 + 1);
  EXPECT_EQ(opened->validation_samples(), 36059 / 256 + 1);
  EXPECT_NEAR(*opened->validation_bytes_per_token(), 111540.0 / 36059, 1e-3);
}

TEST(RealDataTest, Criteo) {
  v1::JobSpec spec;
  spec.mutable_model()->set_family(v1::ModelSpec::DLRM);
  const std::string path =
      SharedFile("data/criteo/criteo_1tb_day0_rows_0000_0799.tsv");
  if (path.empty()) GTEST_SKIP() << "COMERA_SHARED_DIR has no Criteo";
  spec.mutable_data()->mutable_criteo_tsv()->add_files(path);
  TempFolder cache;
  TrainingData::Options options;
  options.cache_dir = cache.path();
  // The second time from the cache.
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto data,
                         OpenTrainingData(WithDefaults(spec), options));
    // 800 rows: six parts of seven train, half of the seventh validates.
    EXPECT_EQ(data->train_samples(), 685);
    EXPECT_EQ(data->validation_samples(), 58);
    ASSERT_NE(data->clicks(), nullptr);
    EXPECT_EQ(data->clicks()->dense_features, 13);
    ASSERT_EQ(data->clicks()->tables(), 26);
    // The last 58 rows hold none of the 20 clicks.
    EXPECT_EQ(data->baseline_loss(), 0);
    Batch batch;
    ASSERT_OK(data->TrainBatch(0, 685, 0, 1, &batch));
    int clicks = 0;
    for (int32_t label : batch.labels) clicks += label;
    EXPECT_EQ(clicks, 18);
  }
}

}  // namespace
}  // namespace comera::trainer
