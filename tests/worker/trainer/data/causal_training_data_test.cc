// TrainingData for causal language models: sources, cache, phases, and
// specifications that are refused.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "tests/worker/trainer/data/gzip.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/open_training_data.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

class CausalTrainingDataTest : public ::testing::Test {
 protected:
  CausalTrainingDataTest() {
    spec_.mutable_model()->set_family(v1::ModelSpec::CAUSAL_LM);
    spec_.mutable_training()->set_seed(5);
    v1::DataSpec* data = spec_.mutable_data();
    data->set_max_length(16);
    data->mutable_tokenizer()->set_kind(v1::TokenizerSpec::BYTE_BPE);
    data->mutable_tokenizer()->set_train_vocabulary_size(300);
    data->mutable_text()->add_train(folder_.Write("train.txt", Text(40)));
    data->mutable_text()->set_document_separator("<|end|>");
    options_.cache_dir = cache_.path();
    options_.on_activity = [this](const std::string& what) {
      activity_ += what + "\n";
    };
  }
  static std::string Text(int documents) {
    std::string text;
    for (int i = 0; i < documents; ++i) {
      for (int line = 0; line <= i % 9; ++line) {
        absl::StrAppend(&text, "Line ", line, " of text ", i, ".\n");
      }
      absl::StrAppend(&text, "<|end|>\n");
    }
    return text;
  }
  std::unique_ptr<TrainingData> Open() {
    activity_.clear();
    auto data = OpenTrainingData(spec_, options_);
    EXPECT_OK(data);
    return data.ok() ? *std::move(data) : nullptr;
  }
  bool Rebuilt() const {
    return activity_.find("tokenising training data") != std::string::npos;
  }

  TempFolder folder_;
  TempFolder cache_;
  v1::JobSpec spec_;
  TrainingData::Options options_;
  std::string activity_;
};

Batch Train(const TrainingData& data, int64_t step, int64_t size, int rank = 0,
            int world_size = 1) {
  Batch batch;
  EXPECT_OK(data.TrainBatch(step, size, rank, world_size, &batch));
  return batch;
}

void ExpectEqual(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.size, b.size);
  EXPECT_EQ(a.length, b.length);
  EXPECT_EQ(a.first_sample, b.first_sample);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.segments, b.segments);
  EXPECT_EQ(a.mask, b.mask);
  EXPECT_EQ(a.label_rows, b.label_rows);
  EXPECT_EQ(a.labels, b.labels);
}

TEST_F(CausalTrainingDataTest, RowsAreFull) {
  const auto data = Open();
  EXPECT_EQ(data->vocabulary_size(), 300);
  EXPECT_EQ(data->classes(), 0);
  EXPECT_EQ(data->test_samples(), 0);
  const int64_t n = data->train_samples();
  const Batch batch = Train(*data, 0, n);
  ASSERT_EQ(batch.ids.size(), static_cast<size_t>(n * 16));
  const auto padding = std::count(batch.mask.begin(), batch.mask.end(), 0.0f);
  EXPECT_LT(padding, 16);
  // 36 documents of 40 train; all but their last tokens have a label.
  EXPECT_EQ(static_cast<int64_t>(batch.labels.size()), n * 16 - padding - 36);
  EXPECT_TRUE(std::is_sorted(batch.label_rows.begin(), batch.label_rows.end()));
  EXPECT_GT(data->baseline_loss(), 2);
  EXPECT_LT(data->baseline_loss(), 6);
  EXPECT_GT(*data->validation_bytes_per_token(), 1);
  EXPECT_LT(*data->validation_bytes_per_token(), 10);
}

TEST_F(CausalTrainingDataTest, SourcesOfTheSameDocumentsAreAlike) {
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    const std::string text = absl::StrCat("text ", i, " ", i * i);
    folder_.Write(absl::StrCat("many/", 10 + i, ".txt"), text);
    absl::StrAppend(&lines, "{\"code\": \"", text, "\"}\n");
  }
  const std::string held_out = folder_.Write("held_out", "text 1 2 3");
  v1::Text* text = spec_.mutable_data()->mutable_text();
  text->set_train(0, folder_ / "many/*.txt");
  text->clear_document_separator();
  text->add_validation(held_out);
  const Batch from_text = Train(*Open(), 3, 4);
  v1::Jsonl* jsonl = spec_.mutable_data()->mutable_jsonl();
  jsonl->set_train(folder_.Write("train.jsonl.gz", Gzip(lines)));
  jsonl->set_validation(
      folder_.Write("v.jsonl", "{\"code\": \"text 1 2 3\"}\n"));
  jsonl->add_fields("code");
  ExpectEqual(Train(*Open(), 3, 4), from_text);
  v1::CodeDirectory* code = spec_.mutable_data()->mutable_code_directory();
  code->add_roots(folder_ / "many");
  EXPECT_GT(Open()->train_samples(), 0);
}

TEST_F(CausalTrainingDataTest, MembersTogetherAreOneMember) {
  const auto data = Open();
  const Batch all = Train(*data, 7, 6);
  for (int rank = 0; rank < 3; ++rank) {
    const Batch part = Train(*data, 7, 6, rank, 3);
    EXPECT_EQ(part.first_sample, 2 * rank);
    EXPECT_EQ(part.ids,
              std::vector<int32_t>(all.ids.begin() + rank * 32,
                                   all.ids.begin() + (rank + 1) * 32));
  }
}

TEST_F(CausalTrainingDataTest, CacheIsUsedAndFollowsTheCorpus) {
  const Batch batch = Train(*Open(), 2, 8);
  EXPECT_TRUE(Rebuilt());
  ExpectEqual(Train(*Open(), 2, 8), batch);
  EXPECT_FALSE(Rebuilt());
  // Tokens do not depend on the length of rows.
  spec_.mutable_data()->set_max_length(32);
  Open();
  EXPECT_FALSE(Rebuilt());
  spec_.mutable_data()->mutable_text()->set_validation_fraction(0.3);
  Open();
  EXPECT_TRUE(Rebuilt());
  folder_.Write("train.txt", Text(41));
  Open();
  EXPECT_TRUE(Rebuilt());
  options_.cache_dir = "";
  spec_.mutable_data()->set_max_length(16);
  spec_.mutable_data()->mutable_text()->clear_validation_fraction();
  folder_.Write("train.txt", Text(40));
  ExpectEqual(Train(*Open(), 2, 8), batch);
}

TEST_F(CausalTrainingDataTest, DamagedCacheIsRebuilt) {
  const Batch batch = Train(*Open(), 0, 8);
  for (const auto& entry : std::filesystem::directory_iterator(cache_.path())) {
    if (entry.path().extension() == ".lock") continue;
    ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(entry.path().string()));
    bytes[bytes.size() / 2] ^= 0x10;
    ASSERT_OK(WriteFileAtomically(entry.path().string(), bytes));
  }
  ExpectEqual(Train(*Open(), 0, 8), batch);
  EXPECT_TRUE(Rebuilt());
  EXPECT_THAT(activity_, HasSubstr("not usable"));
}

TEST_F(CausalTrainingDataTest, PhasesCutTheSameTokens) {
  const auto small = Open();
  spec_.mutable_data()->set_max_length(48);
  const auto large = Open();
  for (const auto& [steps, length] : {std::pair(3, 16), std::pair(4, 48)}) {
    v1::Phase* phase = spec_.mutable_training()->add_phases();
    phase->set_steps(steps);
    phase->set_max_length(length);
  }
  const auto phased = Open();
  ExpectEqual(Train(*phased, 2, 4), Train(*small, 2, 4));
  ExpectEqual(Train(*phased, 3, 4), Train(*large, 0, 4));
  ExpectEqual(Train(*phased, 6, 4), Train(*large, 3, 4));
  EXPECT_EQ(phased->validation_bytes_per_token(),
            large->validation_bytes_per_token());
  EXPECT_EQ(phased->baseline_loss(), small->baseline_loss());
  EXPECT_EQ(phased->test_bytes_per_token(), std::nullopt);
}

TEST_F(CausalTrainingDataTest, TextsForMaskedLanguageModels) {
  spec_.mutable_model()->set_family(v1::ModelSpec::MASKED_LM);
  const auto data = Open();
  const Batch batch = Train(*data, 0, 4);
  EXPECT_EQ(batch.ids[0], 0) << "<s>";
  EXPECT_EQ(data->validation_bytes_per_token(), std::nullopt);
}

TEST_F(CausalTrainingDataTest, BadSpecs) {
  const v1::JobSpec good = spec_;
  const auto expect = [&](absl::StatusCode code, const char* message) {
    EXPECT_THAT(OpenTrainingData(spec_, options_),
                StatusIs(code, HasSubstr(message)));
    spec_ = good;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  spec_.mutable_data()->set_max_length(7);
  expect(kInvalid, "data.max_length: 7");
  spec_.mutable_training()->add_phases()->set_max_length(16);
  spec_.mutable_training()->add_phases()->set_max_length(3);
  expect(kInvalid, "training.phases[1].max_length: 3");
  spec_.mutable_data()->mutable_labelled_text();
  expect(kInvalid, "data: CAUSAL_LM needs documents");
  spec_.mutable_data()->clear_text();
  expect(kInvalid, "data: CAUSAL_LM needs documents");
  spec_.mutable_data()->clear_tokenizer();
  expect(kInvalid, "data.tokenizer.kind");
  spec_.mutable_data()->mutable_text()->set_train(0, folder_ / "*.none");
  expect(absl::StatusCode::kNotFound, "data.text.train");
  spec_.mutable_model()->set_family(v1::ModelSpec::ENCODER_CLASSIFIER);
  expect(kInvalid, "needs labels");
  folder_.Write("train.txt", "ok\n\xff");
  expect(absl::StatusCode::kDataLoss, "train.txt:2: not UTF-8");
  folder_.Write("train.txt", "");
  expect(absl::StatusCode::kDataLoss, "no training token");
}

}  // namespace
}  // namespace comera::trainer
