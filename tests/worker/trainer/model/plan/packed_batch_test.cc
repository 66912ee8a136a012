// Tests the packing of batches.
#include "worker/trainer/model/plan/packed_batch.h"

#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Batch WithLengths(int64_t length, const std::vector<int64_t>& lengths) {
  Batch batch;
  batch.size = static_cast<int64_t>(lengths.size());
  batch.length = length;
  for (int64_t each : lengths) {
    for (int64_t j = 0; j < length; ++j) {
      batch.mask.push_back(j < each ? 1.0f : 0.0f);
    }
  }
  return batch;
}

TEST(PackedBatchTest, LongestFirstThenInOrder) {
  PackedBatch packed(5, 15, 10);
  ASSERT_OK(packed.Set(WithLengths(3, {1, 3, 0, 1, 3})));
  EXPECT_EQ(packed.tokens(), 8);
  EXPECT_EQ(packed.sequences(), 4);
  EXPECT_EQ(packed.max_length(), 3);
  EXPECT_THAT(packed.offsets(), ElementsAre(0, 3, 6, 7, 8));
  EXPECT_THAT(packed.places(), ElementsAre(3, 4, 5, 12, 13, 14, 0, 9));
  EXPECT_THAT(packed.row_ids(), ElementsAre(10, 11, 12, 40, 41, 42, 0, 30));
  for (int64_t i = 0; i < packed.tokens(); ++i) {
    EXPECT_EQ(packed.TokenAt(packed.places()[i]), i);
  }
  EXPECT_EQ(packed.TokenAt(1), -1);
  EXPECT_EQ(packed.TokenAt(6), -1);
}

TEST(PackedBatchTest, DealtSamplesKeepTheirRowsOfTheGlobalBatch) {
  PackedBatch packed(3, 9, 10);
  Batch batch = WithLengths(3, {1, 3, 2});
  batch.first_sample = 2;
  ASSERT_OK(packed.Set(batch));
  EXPECT_EQ(packed.first_row(), 20);
  batch.samples = {2, 5, 6};
  ASSERT_OK(packed.Set(batch));
  EXPECT_EQ(packed.first_row(), 0);
  EXPECT_THAT(packed.row_ids(), ElementsAre(50, 51, 52, 60, 61, 20));
  EXPECT_THAT(packed.places(), ElementsAre(3, 4, 5, 6, 7, 0));
  batch.samples = {2, 5};
  EXPECT_THAT(packed.Set(batch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dealt")));
  batch.samples = {2, 5, 214748364};
  EXPECT_THAT(packed.Set(batch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dealt")));
}

TEST(PackedBatchTest, EveryDocumentIsASequence) {
  PackedBatch packed(12, 12, 10, /*by_document=*/true);
  Batch batch = WithLengths(4, {4, 3, 0});
  batch.segments = {0, 1, 1, 1, 0, 0, 2, 9, 7, 7, 7, 7};
  ASSERT_OK(packed.Set(batch));
  EXPECT_EQ(packed.tokens(), 7);
  EXPECT_EQ(packed.sequences(), 4);
  EXPECT_EQ(packed.max_length(), 3);
  EXPECT_THAT(packed.offsets(), ElementsAre(0, 3, 5, 6, 7));
  EXPECT_THAT(packed.places(), ElementsAre(1, 2, 3, 4, 5, 0, 6));
  EXPECT_THAT(packed.row_ids(), ElementsAre(1, 2, 3, 10, 11, 0, 12));
  EXPECT_THAT(packed.positions(), ElementsAre(0, 1, 2, 0, 1, 0, 0));
  // Padding has positions of a sample too.
  packed.PadTo(12, 6, 4);
  EXPECT_THAT(packed.offsets(), ElementsAre(0, 3, 5, 6, 7, 11, 12));
  EXPECT_THAT(packed.positions(),
              ElementsAre(0, 1, 2, 0, 1, 0, 0, 0, 1, 2, 0, 0));
}

TEST(PackedBatchTest, EveryTokenMayBeADocument) {
  PackedBatch packed(4, 4, 4, /*by_document=*/true);
  Batch batch = WithLengths(4, {4});
  batch.segments = {0, 1, 2, 3};
  ASSERT_OK(packed.Set(batch));
  EXPECT_THAT(packed.offsets(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(packed.positions(), ElementsAre(0, 0, 0, 0));
}

TEST(PackedBatchTest, RefusesDocumentsOutOfOrder) {
  PackedBatch packed(6, 6, 3, /*by_document=*/true);
  const auto set = [&](std::vector<int32_t> segments) {
    Batch batch = WithLengths(3, {3, 2});
    batch.segments = std::move(segments);
    return packed.Set(batch);
  };
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  ASSERT_OK(set({0, 0, 1, 0, 1, -1}));
  EXPECT_THAT(set({0, 1, 0, 0, 0, 0}),
              refused("document 0 at token 2 of sample 0"));
  EXPECT_THAT(set({0, 0, 0, 1, 1, 0}),
              refused("document 1 at token 0 of sample 1"));
  EXPECT_THAT(set({-1, 0, 0, 0, 0, 0}), refused("document -1"));
  EXPECT_THAT(set({0, 0}), refused("2 segments for 6 tokens"));
  EXPECT_THAT(packed.places(), ElementsAre(0, 1, 2, 3, 4));
}

TEST(PackedBatchTest, NothingButPadding) {
  PackedBatch packed(2, 4, 2);
  ASSERT_OK(packed.Set(WithLengths(2, {0, 0})));
  EXPECT_EQ(packed.tokens(), 0);
  EXPECT_EQ(packed.sequences(), 0);
  EXPECT_THAT(packed.offsets(), ElementsAre(0));
}

TEST(PackedBatchTest, RefusesOtherMasksAndKeepsWhatItHad) {
  PackedBatch packed(2, 6, 3);
  ASSERT_OK(packed.Set(WithLengths(3, {2, 1})));
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  Batch batch = WithLengths(3, {3, 3});
  batch.mask[4] = 0;
  EXPECT_THAT(packed.Set(batch), refused("token 2 of sample 1"));
  batch.mask[4] = 0.5f;
  EXPECT_THAT(packed.Set(batch), refused("0.5"));
  batch.mask.pop_back();
  EXPECT_THAT(packed.Set(batch), refused("mask of 5 for 6 tokens"));
  EXPECT_THAT(packed.places(), ElementsAre(0, 1, 3));
}

}  // namespace
}  // namespace comera::trainer
