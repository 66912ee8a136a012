// Tests the batches that text data give.
#include "worker/trainer/data/batch/training_data.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/batch/deal_samples.h"
#include "worker/trainer/data/batch/masking.h"
#include "worker/trainer/data/open_training_data.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

// A small code directory: 40 files of different lengths.
class CodeDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (int line = 0; line <= i % 9; ++line) {
        absl::StrAppend(&text, "def function_", i, "_", line,
                        "(x):\n    return x + ", line, "\n\n");
      }
      code_.Write(absl::StrCat("f", i, ".py"), text);
    }
    spec_.mutable_model()->set_family(v1::ModelSpec::MASKED_LM);
    spec_.mutable_training()->set_seed(5);
    v1::DataSpec* data = spec_.mutable_data();
    data->set_max_length(24);
    data->mutable_tokenizer()->set_kind(v1::TokenizerSpec::BYTE_BPE);
    data->mutable_tokenizer()->set_train_vocabulary_size(300);
    data->mutable_code_directory()->add_roots(code_.path());
    data->mutable_code_directory()->set_validation_fraction(0.2);
    options_.cache_dir = cache_.path();
    options_.on_activity = [this](const std::string& what) {
      activity_ += what + "\n";
    };
  }
  std::unique_ptr<TrainingData> Open() {
    activity_.clear();
    auto data = OpenTrainingData(spec_, options_);
    EXPECT_OK(data);
    return data.ok() ? *std::move(data) : nullptr;
  }
  bool Rebuilt() const {
    return activity_.find("training files") != std::string::npos;
  }

  TempFolder code_;
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
  EXPECT_EQ(a.first_sample, b.first_sample);
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.segments, b.segments);
  EXPECT_EQ(a.mask, b.mask);
  EXPECT_EQ(a.label_rows, b.label_rows);
  EXPECT_EQ(a.labels, b.labels);
}

TEST_F(CodeDataTest, TokensAreCountedAsTheModelReadsThem) {
  const auto data = Open();
  const std::vector<int64_t> counts = data->TokenCounts();
  ASSERT_EQ(counts.size(), 300u);
  // One epoch, in which masks take the place of some tokens.
  std::vector<int64_t> read(300);
  const Batch batch = Train(*data, 0, data->train_samples());
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    if (batch.mask[i] != 0) ++read[batch.ids[i]];
  }
  EXPECT_EQ(counts[0], data->train_samples()) << "<s>";
  EXPECT_EQ(counts[1], 0) << "<pad>";
  constexpr int32_t kMask = 299;  // the last of a trained vocabulary
  ASSERT_GT(read[kMask], 20);
  EXPECT_NEAR(static_cast<double>(counts[kMask]) / read[kMask], 1, 0.15);
  // Without masks the counts are those of the text.
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    --read[batch.ids[batch.label_rows[i]]];
    ++read[batch.labels[i]];
  }
  for (int32_t id = 0; id < 300; ++id) {
    if (id != kMask) EXPECT_EQ(counts[id], read[id]) << id;
  }
}

TEST_F(CodeDataTest, Shape) {
  const auto data = Open();
  EXPECT_EQ(data->vocabulary_size(), 300);
  EXPECT_GT(data->train_samples(), data->validation_samples());
  EXPECT_GT(data->validation_samples(), 0);
  const Batch batch = Train(*data, 0, 8);
  EXPECT_EQ(batch.size, 8);
  EXPECT_EQ(batch.length, 24);
  EXPECT_EQ(batch.first_sample, 0);
  ASSERT_EQ(batch.ids.size(), 8u * 24);
  ASSERT_EQ(batch.mask.size(), batch.ids.size());
  EXPECT_EQ(batch.segments, std::vector<int32_t>(8 * 24, 0));
  for (int row = 0; row < 8; ++row) {
    EXPECT_EQ(batch.ids[row * 24], 0) << "<s>";
    int tokens = 0;
    for (int i = 0; i < 24; ++i) tokens += batch.mask[row * 24 + i] == 1.0f;
    EXPECT_EQ(batch.ids[row * 24 + tokens - 1], 2) << "</s>";
    for (int i = tokens; i < 24; ++i) {
      EXPECT_EQ(batch.ids[row * 24 + i], 1) << "<pad>";
      EXPECT_EQ(batch.mask[row * 24 + i], 0.0f);
    }
    const auto in_row = [row](int32_t r) { return r / 24 == row; };
    const auto labels =
        std::count_if(batch.label_rows.begin(), batch.label_rows.end(), in_row);
    EXPECT_GE(labels, 1);
    EXPECT_LE(labels, MaxMaskLabels(24, 0.15));
  }
  EXPECT_EQ(batch.labels.size(), batch.label_rows.size());
  EXPECT_TRUE(std::is_sorted(batch.label_rows.begin(), batch.label_rows.end()));
}

// Sample `i` of a batch: tokens, segments and mask, and behind them its labels,
// each with its place.
std::vector<int32_t> Sample(const Batch& batch, int64_t i) {
  const auto row = [&](const auto& values) {
    return std::vector<int32_t>(values.begin() + i * batch.length,
                                values.begin() + (i + 1) * batch.length);
  };
  std::vector<int32_t> sample = row(batch.ids);
  for (const auto& more : {row(batch.segments), row(batch.mask)}) {
    sample.insert(sample.end(), more.begin(), more.end());
  }
  for (size_t k = 0; k < batch.labels.size(); ++k) {
    if (batch.label_rows[k] / batch.length != i) continue;
    sample.push_back(static_cast<int32_t>(batch.label_rows[k] % batch.length));
    sample.push_back(batch.labels[k]);
  }
  return sample;
}

TEST_F(CodeDataTest, MembersTogetherAreOneMember) {
  const auto data = Open();
  for (const int world_size : {2, 3, 6}) {
    for (const int64_t step : {0, 1, 17}) {
      const Batch all = Train(*data, step, 12);
      std::set<int64_t> places;
      for (int rank = 0; rank < world_size; ++rank) {
        const Batch part = Train(*data, step, 12, rank, world_size);
        ASSERT_EQ(part.size, 12 / world_size);
        EXPECT_EQ(part.first_sample, part.SampleAt(0));
        EXPECT_TRUE(std::is_sorted(part.samples.begin(), part.samples.end()));
        for (int64_t i = 0; i < part.size; ++i) {
          const int64_t place = part.SampleAt(i);
          EXPECT_TRUE(places.insert(place).second) << place;
          EXPECT_EQ(Sample(part, i), Sample(all, place));
        }
        ExpectEqual(Train(*data, step, 12, rank, world_size), part);
      }
      EXPECT_EQ(places.size(), 12u);
      EXPECT_EQ(*places.rbegin(), 11);
    }
  }
}

TEST(DealSamplesTest, MembersGetEquallyManySamplesAndTokens) {
  // 16 + 5 + 4 and 12 + 7 + 4 tokens.
  const std::vector<int32_t> lengths = {4, 16, 5, 4, 12, 7};
  EXPECT_EQ(DealSamples(lengths, 0, 2), std::vector<int32_t>({1, 2, 3}));
  EXPECT_EQ(DealSamples(lengths, 1, 2), std::vector<int32_t>({0, 4, 5}));
  // The longest goes with the shortest.
  EXPECT_EQ(DealSamples({9, 1, 8, 2}, 0, 2), std::vector<int32_t>({0, 1}));
  // Without the rule of equal counts one member would get all short ones.
  EXPECT_EQ(DealSamples({9, 1, 1, 1}, 1, 2).size(), 2u);
}

TEST(DealSamplesTest, SamplesOfOneLengthStayTogether) {
  EXPECT_EQ(DealSamples({5, 5, 5, 5, 5, 5}, 1, 3),
            std::vector<int32_t>({2, 3}));
  EXPECT_EQ(DealSamples({5, 3, 4}, 0, 1), std::vector<int32_t>({0, 1, 2}));
}

TEST_F(CodeDataTest, AFunctionOfSeedAndStep) {
  const auto data = Open();
  const Batch batch = Train(*data, 3, 8);
  Train(*data, 9, 4);
  ExpectEqual(Train(*data, 3, 8), batch);
  EXPECT_NE(Train(*data, 4, 8).ids, batch.ids);
  options_.cache_dir = "";
  ExpectEqual(Train(*Open(), 3, 8), batch);
  spec_.mutable_training()->set_seed(6);
  EXPECT_NE(Train(*Open(), 3, 8).ids, batch.ids);
}

// A sample's tokens with the labels put back.
std::multiset<std::vector<int32_t>> Unmasked(Batch batch) {
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    batch.ids[batch.label_rows[i]] = batch.labels[i];
  }
  std::multiset<std::vector<int32_t>> samples;
  for (int64_t row = 0; row < batch.size; ++row) {
    samples.emplace(batch.ids.begin() + row * batch.length,
                    batch.ids.begin() + (row + 1) * batch.length);
  }
  return samples;
}

TEST_F(CodeDataTest, EveryEpochHasEverySample) {
  const auto data = Open();
  const int64_t n = data->train_samples();
  const auto first = Unmasked(Train(*data, 0, n));
  const auto second = Unmasked(Train(*data, 1, n));
  EXPECT_EQ(first, second);
  EXPECT_NE(Train(*data, 0, n).ids, Train(*data, 1, n).ids);
  // A batch of two epochs runs on over the end of the first.
  auto twice = first;
  twice.insert(second.begin(), second.end());
  EXPECT_EQ(Unmasked(Train(*data, 0, 2 * n)), twice);
}

TEST_F(CodeDataTest, MasksChangeWithTheStep) {
  const auto data = Open();
  const int64_t n = data->train_samples();
  // The same sample, one epoch later, at the same place of a batch.
  Batch a = Train(*data, 0, n), b = Train(*data, 1, n);
  EXPECT_NE(a.label_rows, b.label_rows);
}

TEST_F(CodeDataTest, Validation) {
  const auto data = Open();
  const int64_t n = data->validation_samples();
  Batch all, part, again;
  ASSERT_OK(data->ValidationBatch(0, n + 100, &all));
  EXPECT_EQ(all.size, n);
  EXPECT_EQ(Unmasked(all).size(), static_cast<size_t>(n));
  ASSERT_OK(data->ValidationBatch(1, 2, &part));
  EXPECT_EQ(part.first_sample, 1);
  EXPECT_EQ(part.ids, std::vector<int32_t>(all.ids.begin() + 24,
                                           all.ids.begin() + 3 * 24));
  ASSERT_OK(data->ValidationBatch(1, 2, &again));
  ExpectEqual(part, again);
  ASSERT_OK(data->ValidationBatch(n, 1, &part));
  EXPECT_EQ(part.size, 0);
  ASSERT_OK(data->ValidationBatch(0, 0, &part));
  EXPECT_EQ(part.size, 0);
}

TEST_F(CodeDataTest, ImpossibleBatches) {
  const auto data = Open();
  Batch batch;
  const int64_t huge = std::numeric_limits<int64_t>::max();
  struct Row {
    int64_t step, batch_size;
    int rank, world_size;
  };
  for (const Row& row : std::vector<Row>{{-1, 8, 0, 1},
                                         {0, 0, 0, 1},
                                         {0, -8, 0, 1},
                                         {0, 8, 0, 3},
                                         {0, 8, 2, 2},
                                         {0, 8, -1, 2},
                                         {0, 8, 0, 0},
                                         {0, huge, 0, 1},
                                         {huge, 8, 0, 1},
                                         {huge / 8, 8, 0, 1}}) {
    EXPECT_THAT(data->TrainBatch(row.step, row.batch_size, row.rank,
                                 row.world_size, &batch),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(data->ValidationBatch(-1, 1, &batch),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(data->ValidationBatch(data->validation_samples() + 1, 1, &batch),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(CodeDataTest, BaselineIsTheUnigramLoss) {
  const auto data = Open();
  // Recomputed from batches: all training samples once.
  std::vector<double> counts(300, 1);
  double total = 300;
  for (const auto& sample : Unmasked(Train(*data, 0, data->train_samples()))) {
    for (const int32_t id : sample) {
      if (id <= 3 || id == 299) continue;
      counts[id] += 1;
      total += 1;
    }
  }
  Batch batch;
  ASSERT_OK(data->ValidationBatch(0, data->validation_samples(), &batch));
  double loss = 0;
  for (const int32_t label : batch.labels) {
    loss -= std::log(counts[label] / total);
  }
  EXPECT_NEAR(data->baseline_loss(), loss / batch.labels.size(), 1e-9);
  EXPECT_LT(data->baseline_loss(), std::log(300));
}

TEST_F(CodeDataTest, CacheIsUsedAndFollowsTheCorpus) {
  const Batch batch = Train(*Open(), 0, 8);
  EXPECT_TRUE(Rebuilt());
  ExpectEqual(Train(*Open(), 0, 8), batch);
  EXPECT_FALSE(Rebuilt());
  spec_.mutable_data()->set_max_length(32);
  Open();
  EXPECT_TRUE(Rebuilt());
  code_.Write("new.py", "def another():\n    pass\n");
  Open();
  EXPECT_TRUE(Rebuilt());
}

TEST_F(CodeDataTest, DamagedCacheIsRebuilt) {
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
  Open();
  EXPECT_FALSE(Rebuilt());
}

TEST_F(CodeDataTest, SavedTokenizerGivesTheSameSamples) {
  const Batch batch = Train(*Open(), 0, 8);
  TempFolder saved;
  ASSERT_OK(Open()->SaveTokenizer(saved / "model"));
  v1::TokenizerSpec* tokenizer = spec_.mutable_data()->mutable_tokenizer();
  tokenizer->set_train_vocabulary_size(0);
  tokenizer->set_vocabulary_file(saved / "model/vocab.json");
  tokenizer->set_merges_file(saved / "model/merges.txt");
  ExpectEqual(Train(*Open(), 0, 8), batch);
}

TEST_F(CodeDataTest, CorpusOfNothingReadable) {
  for (int i = 0; i < 40; ++i) {
    code_.Write(absl::StrCat("f", i, ".py"), std::string("\0\xff", 2));
  }
  EXPECT_THAT(OpenTrainingData(spec_, options_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no training")));
}

TEST_F(CodeDataTest, BadSpecs) {
  const v1::JobSpec good = spec_;
  const auto expect = [this, &good](const char* field) {
    EXPECT_THAT(OpenTrainingData(spec_, options_),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
    spec_ = good;
  };
  for (const int32_t length : {-5, 0, 7, 65536}) {
    spec_.mutable_data()->set_max_length(length);
    expect("data.max_length");
  }
  for (const double probability : {-0.1, 1.0, std::nan("")}) {
    spec_.mutable_data()->set_mask_probability(probability);
    expect("data.mask_probability");
  }
  for (const int32_t size : {0, 299, 65537, -1}) {
    spec_.mutable_data()->mutable_tokenizer()->set_train_vocabulary_size(size);
    expect("data.tokenizer.train_vocabulary_size");
  }
  spec_.mutable_data()->mutable_tokenizer()->set_merges_file("m");
  expect("vocabulary_file");
  spec_.mutable_data()->mutable_tokenizer()->set_kind(
      v1::TokenizerSpec::WORDPIECE);
  expect("data.tokenizer.vocabulary_file");
  spec_.mutable_data()->clear_tokenizer();
  expect("data.tokenizer.kind");
  spec_.mutable_data()->clear_code_directory();
  expect("data: one of");
  spec_.mutable_model()->set_family(v1::ModelSpec::ENCODER_CLASSIFIER);
  expect("needs labels");
  spec_.mutable_model()->clear_family();
  expect("model.family");
}

}  // namespace
}  // namespace comera::trainer
