// Tests jobs on token shards: their batches are those of the same text in
// memory, and their tokenizer has to be the shards'.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/open_training_data.h"
#include "worker/trainer/data/prepare/prepare.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

class TokenShardsJobTest : public ::testing::Test {
 protected:
  TokenShardsJobTest() {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      absl::StrAppend(&text, "Document ", i, " tells of ", i * i,
                      " things,\nand of ", 1000 - i, " more.\n---\n");
    }
    text_ = folder_.Write("text.txt", text);
    Prepare(text_, "shards", 320);
    spec_.mutable_model()->set_family(v1::ModelSpec::CAUSAL_LM);
    spec_.mutable_training()->set_seed(3);
    spec_.mutable_data()->set_max_length(16);
    SetShards("shards");
  }
  void Prepare(const std::string& source, const std::string& to,
               int32_t vocabulary) {
    PrepareOptions options;
    options.sources = {source};
    options.to = folder_ / to;
    options.reading.format.separator = "---";
    options.train.set_kind(v1::TokenizerSpec::BYTE_BPE);
    options.train.set_train_vocabulary_size(vocabulary);
    options.shard_tokens = 500;
    ASSERT_OK(PrepareShards(options));
  }
  void SetShards(const std::string& name) {
    spec_.mutable_data()->mutable_token_shards()->set_train(folder_ / name);
    spec_.mutable_data()->mutable_token_shards()->set_validation_fraction(0.2);
  }
  void SetTokenizer(const std::string& shards) {
    v1::TokenizerSpec* tokenizer = spec_.mutable_data()->mutable_tokenizer();
    tokenizer->set_kind(v1::TokenizerSpec::BYTE_BPE);
    tokenizer->set_vocabulary_file(folder_ /
                                   (shards + "/tokenizer/vocab.json"));
    tokenizer->set_merges_file(folder_ / (shards + "/tokenizer/merges.txt"));
  }
  absl::StatusOr<std::unique_ptr<TrainingData>> Open() {
    TrainingData::Options options;
    options.cache_dir = folder_ / "cache";
    options.max_memory_bytes = max_memory_bytes_;
    options.on_activity = [this](const std::string& what) {
      said_.push_back(what);
    };
    return OpenTrainingData(spec_, options);
  }
  // Whether the last opening tokenised something.
  bool Tokenised() const {
    for (const std::string& what : said_) {
      if (absl::StartsWith(what, "tokenising")) return true;
    }
    return false;
  }

  TempFolder folder_;
  int64_t max_memory_bytes_ = 1 << 20;
  std::vector<std::string> said_;
  std::string text_;
  v1::JobSpec spec_;
};

void ExpectEqual(const TrainingData& a, const TrainingData& b) {
  ASSERT_EQ(a.train_samples(), b.train_samples());
  ASSERT_EQ(a.validation_samples(), b.validation_samples());
  EXPECT_EQ(a.vocabulary_size(), b.vocabulary_size());
  EXPECT_EQ(a.baseline_loss(), b.baseline_loss());
  EXPECT_EQ(a.validation_bytes_per_token(), b.validation_bytes_per_token());
  Batch left, right;
  for (const int64_t step : {0, 1, 2, 3, 100}) {
    ASSERT_OK(a.TrainBatch(step, 4, 0, 1, &left));
    ASSERT_OK(b.TrainBatch(step, 4, 0, 1, &right));
    EXPECT_EQ(left.ids, right.ids);
    EXPECT_EQ(left.segments, right.segments);
    EXPECT_EQ(left.label_rows, right.label_rows);
    EXPECT_EQ(left.labels, right.labels);
  }
  ASSERT_OK(a.ValidationBatch(0, a.validation_samples(), &left));
  ASSERT_OK(b.ValidationBatch(0, a.validation_samples(), &right));
  EXPECT_EQ(left.ids, right.ids);
  EXPECT_EQ(left.labels, right.labels);
}

TEST_F(TokenShardsJobTest, BatchesAreThoseOfTheText) {
  const auto shards = Open();
  ASSERT_OK(shards);
  // A second opening, as after an interruption.
  const auto again = Open();
  ASSERT_OK(again);
  ExpectEqual(**shards, **again);
  SetTokenizer("shards");
  const auto with_tokenizer = Open();
  ASSERT_OK(with_tokenizer);
  v1::Text* text = spec_.mutable_data()->mutable_text();
  text->add_train(text_);
  text->set_document_separator("---");
  text->set_validation_fraction(0.2);
  const auto memory = Open();
  ASSERT_OK(memory);
  ExpectEqual(**shards, **memory);
  ASSERT_OK((*shards)->SaveTokenizer(folder_ / "model"));
}

// Text whose tokens would take too much memory is kept on disk, and what is
// damaged there is made anew.
TEST_F(TokenShardsJobTest, LargeTextsBecomeShardsInTheCache) {
  SetTokenizer("shards");
  v1::Text* text = spec_.mutable_data()->mutable_text();
  text->add_train(text_);
  text->set_document_separator("---");
  const auto memory = Open();
  ASSERT_OK(memory);
  std::filesystem::remove_all(folder_ / "cache");
  max_memory_bytes_ = 1000;
  const auto disk = Open();
  ASSERT_OK(disk);
  ExpectEqual(**memory, **disk);
  std::string shard;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder_ / "cache")) {
    const std::string path = entry.path().string();
    if (absl::StrContains(path, "/train/shard-")) shard = path;
  }
  ASSERT_NE(shard, "");
  said_.clear();
  ASSERT_OK(Open());
  EXPECT_FALSE(Tokenised());
  std::ofstream(shard, std::ios::binary) << "damaged";
  const auto anew = Open();
  ASSERT_OK(anew);
  EXPECT_TRUE(Tokenised());
  ExpectEqual(**memory, **anew);
}

TEST_F(TokenShardsJobTest, PartsOfTheirOwn) {
  v1::TokenShards* shards = spec_.mutable_data()->mutable_token_shards();
  shards->clear_validation_fraction();
  shards->set_validation(folder_ / "shards");
  shards->set_test(folder_ / "shards");
  const auto data = Open();
  ASSERT_OK(data);
  EXPECT_EQ((*data)->validation_samples(), (*data)->train_samples());
  EXPECT_EQ((*data)->test_samples(), (*data)->train_samples());
  Prepare(text_, "others", 330);
  shards->set_test(folder_ / "others");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("data.token_shards.test: its "
                                         "tokenizer is not that")));
}

TEST_F(TokenShardsJobTest, AnotherTokenizer) {
  Prepare(text_, "others", 330);
  SetTokenizer("others");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("data.tokenizer: not the tokenizer")));
  spec_.mutable_data()->clear_tokenizer();
  folder_.Write("shards/tokenizer/merges.txt", "#version: 0.2\n");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss,
                               HasSubstr("not the tokenizer that the shards")));
}

TEST_F(TokenShardsJobTest, BadSpecs) {
  v1::TokenShards* shards = spec_.mutable_data()->mutable_token_shards();
  shards->set_validation_fraction(1);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("validation_fraction")));
  shards->set_train(folder_ / "none");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound,
                               HasSubstr("data.token_shards.train: ")));
  shards->clear_train();
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("data.token_shards.train: missing")));
  Prepare(folder_.Write("one.txt", "a text alone"), "one", 300);
  SetShards("one");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss,
                               HasSubstr("cannot be divided")));
}

}  // namespace
}  // namespace comera::trainer
