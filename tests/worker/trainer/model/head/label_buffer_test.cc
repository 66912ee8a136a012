// Tests the checks and the padding of a batch's labels.
#include "worker/trainer/model/head/label_buffer.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMaxLabels = 4, kOutputs = 3;

// Labels of two samples: of one token, and of three.
class LabelBufferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    batch_.size = 2;
    batch_.length = 3;
    batch_.mask = {1, 0, 0, 1, 1, 1};
    ASSERT_OK(packed_.Set(batch_));
    Plan plan;
    plan.backend = backend_.get();
    plan.memory = &memory_;
    buffer_ =
        std::make_unique<LabelBuffer>(plan.AtStage(0), kMaxLabels, kOutputs);
    ASSERT_OK(memory_.Commit());
  }

  absl::Status Set(std::vector<int32_t> rows, std::vector<int32_t> labels,
                   int64_t padded_size = 0) {
    batch_.label_rows = std::move(rows);
    batch_.labels = std::move(labels);
    return buffer_->Set(batch_, packed_, padded_size);
  }
  std::vector<int32_t> Values(kernels::ConstIndices indices) {
    return {indices.data, indices.data + indices.size};
  }

  const std::unique_ptr<kernels::Backend> backend_ =
      kernels::CreateCpuBackend({1, 0});
  StepMemory memory_{backend_.get(), /*stages=*/1};
  PackedBatch packed_{/*max_sequences=*/2, /*max_tokens=*/6, /*row_stride=*/3};
  Batch batch_;
  std::unique_ptr<LabelBuffer> buffer_;
};

TEST_F(LabelBufferTest, RowsAreTokensOfThePackedBatch) {
  ASSERT_OK(Set({0, 4}, {2, 1}));
  EXPECT_EQ(buffer_->size(), 2);
  EXPECT_EQ(buffer_->count(), 2);
  // The longer sample comes first: its tokens are 0 to 2.
  EXPECT_THAT(Values(buffer_->Rows(0, 2)), ElementsAre(3, 1));
  EXPECT_THAT(Values(buffer_->Labels(0, 2)), ElementsAre(2, 1));
}

TEST_F(LabelBufferTest, PaddingHasNoLabel) {
  ASSERT_OK(Set({4}, {1}, /*padded_size=*/3));
  EXPECT_EQ(buffer_->size(), 3);
  EXPECT_EQ(buffer_->count(), 1);
  EXPECT_THAT(Values(buffer_->Labels(0, 3)), ElementsAre(1, -1, -1));
}

TEST_F(LabelBufferTest, MalformedLabelsAreRefused) {
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Set({0, 4}, {1}), refused);
  EXPECT_THAT(Set({4, 0}, {1, 1}), refused);  // not ascending
  EXPECT_THAT(Set({6}, {1}), refused);        // beyond the batch
  EXPECT_THAT(Set({1}, {1}), refused);        // padding of the first sample
  EXPECT_THAT(Set({0}, {3}), refused);        // no such output
  EXPECT_THAT(Set({0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}), refused);  // too many
}

}  // namespace
}  // namespace comera::trainer
