// TrainingData for classifiers; masked language modelling is in
// training_data_test.cc.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/open_training_data.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

class ClassifierDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string header = "a\tb\tlabel\n";
    const std::string vocabulary = folder_.Write(
        "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nx\ny\nz\n");
    spec_.mutable_model()->set_family(v1::ModelSpec::ENCODER_CLASSIFIER);
    v1::DataSpec* data = spec_.mutable_data();
    data->set_max_length(8);
    data->mutable_tokenizer()->set_kind(v1::TokenizerSpec::WORDPIECE);
    data->mutable_tokenizer()->set_vocabulary_file(vocabulary);
    v1::GlueTsv* tsv = data->mutable_glue_tsv();
    tsv->set_sentence1_column(0);
    tsv->set_sentence2_column(1);
    tsv->set_train(folder_.Write(
        "train.tsv", header + "x y\tz\tno\nx\ty\tyes\nz\tz\tyes\n"));
    tsv->set_validation(
        folder_.Write("dev.tsv", header + "X y\tz\tyes\nw\tx y x\tno\n"));
  }
  TempFolder folder_;
  v1::JobSpec spec_;
};

TEST_F(ClassifierDataTest, LabelsAtClsAndSegments) {
  ASSERT_OK_AND_ASSIGN(const auto data, OpenTrainingData(spec_, {}));
  Batch batch;
  ASSERT_OK(data->ValidationBatch(0, 2, &batch));
  EXPECT_EQ(batch.ids, std::vector<int32_t>({2, 5, 6, 3, 7, 3, 0, 0,  //
                                             2, 1, 3, 5, 6, 5, 3, 0}));
  EXPECT_EQ(batch.segments, std::vector<int32_t>({0, 0, 0, 0, 1, 1, 0, 0,  //
                                                  0, 0, 0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(batch.mask, std::vector<float>({1, 1, 1, 1, 1, 1, 0, 0,  //
                                            1, 1, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(batch.label_rows, std::vector<int32_t>({0, 8}));
  EXPECT_EQ(batch.labels, std::vector<int32_t>({1, 0}));
  // Add-one: "no" 2 of 5, "yes" 3 of 5.
  EXPECT_NEAR(data->baseline_loss(), -(std::log(0.4) + std::log(0.6)) / 2,
              1e-12);
}

TEST_F(ClassifierDataTest, OneSegment) {
  spec_.mutable_model()->set_segments(1);
  ASSERT_OK_AND_ASSIGN(const auto data, OpenTrainingData(spec_, {}));
  Batch batch;
  ASSERT_OK(data->ValidationBatch(0, 2, &batch));
  EXPECT_EQ(batch.segments, std::vector<int32_t>(16, 0));
}

TEST_F(ClassifierDataTest, ForgedLabelsInTheCacheAreNotUsed) {
  TempFolder cache;
  TrainingData::Options options;
  options.cache_dir = cache.path();
  ASSERT_OK(OpenTrainingData(spec_, options));
  int forged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cache.path())) {
    const std::string path = entry.path();
    if (path.find("/samples-") == std::string::npos ||
        entry.path().extension() == ".lock") {
      continue;
    }
    ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(path));
    // The file ends with the labels and an empty test set, which is five counts
    // of eight bytes; its checksum stands after the first line.
    const size_t checksum = bytes.find('\n') + 1;
    bytes[bytes.size() - 5 * 8 - 3] = 1;  // 256 more
    bytes.replace(checksum, 64, Sha256Hex(bytes.substr(checksum + 64)));
    ASSERT_OK(WriteFileAtomically(path, bytes));
    ++forged;
  }
  ASSERT_EQ(forged, 1);
  std::string activity;
  options.on_activity = [&](const std::string& what) { activity += what; };
  ASSERT_OK_AND_ASSIGN(const auto data, OpenTrainingData(spec_, options));
  EXPECT_THAT(activity, HasSubstr("outside the classes"));
  Batch batch;
  ASSERT_OK(data->ValidationBatch(0, 2, &batch));
  EXPECT_EQ(batch.labels, std::vector<int32_t>({1, 0}));
}

TEST_F(ClassifierDataTest, DataErrorsReachTheCaller) {
  folder_.Write("dev.tsv", "a\tb\tlabel\nx\ty\tmaybe\n");
  EXPECT_THAT(OpenTrainingData(spec_, {}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("dev.tsv:2: column 3: expected one of the "
                                 "2 known labels")));
}

}  // namespace
}  // namespace comera::trainer
