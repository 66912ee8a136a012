// Tests which tokens masking hides.
#include "worker/trainer/data/batch/masking.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

constexpr int32_t kVocabulary = 1000;
const SpecialTokens kSpecial = {1, 0, 2, 999, 3};  // pad cls sep mask unk

struct Masked {
  std::vector<int32_t> ids;
  std::vector<int32_t> rows;
  std::vector<int32_t> labels;
};

Masked Mask(std::vector<int32_t> ids, double probability, uint64_t step,
            uint64_t sample, uint64_t seed = 42) {
  Masked result;
  result.ids = std::move(ids);
  MaskTokens({seed, RandomStream::kTrainMask, step, sample}, probability,
             kSpecial, kVocabulary, 100, result.ids.data(),
             static_cast<int32_t>(result.ids.size()), &result.rows,
             &result.labels);
  return result;
}

// <s> 126 ordinary tokens </s>
std::vector<int32_t> Sample() {
  std::vector<int32_t> ids = {kSpecial.cls};
  for (int32_t i = 0; i < 126; ++i) ids.push_back(10 + i);
  ids.push_back(kSpecial.sep);
  return ids;
}

TEST(MaskingTest, SharesAreAsAsked) {
  int64_t labels = 0, masked = 0, kept = 0;
  constexpr int kSamples = 2000;
  for (int i = 0; i < kSamples; ++i) {
    const Masked m = Mask(Sample(), 0.15, 3, i);
    ASSERT_EQ(m.rows.size(), m.labels.size());
    ASSERT_LE(static_cast<int64_t>(m.labels.size()), MaxMaskLabels(128, 0.15));
    ASSERT_TRUE(std::is_sorted(m.rows.begin(), m.rows.end()));
    for (size_t j = 0; j < m.rows.size(); ++j) {
      const int32_t position = m.rows[j] - 100;
      ASSERT_EQ(m.labels[j], Sample()[position]);
      const int32_t now = m.ids[position];
      masked += now == kSpecial.mask;
      kept += now == m.labels[j];
      ASSERT_TRUE(now == kSpecial.mask || !kSpecial.Contains(now));
    }
    labels += static_cast<int64_t>(m.labels.size());
  }
  const double n = static_cast<double>(labels);
  EXPECT_NEAR(n / (126.0 * kSamples), 0.15, 0.001);
  EXPECT_NEAR(masked / n, 0.8, 0.01);
  EXPECT_NEAR(kept / n, 0.1, 0.01);
}

TEST(MaskingTest, OthersStay) {
  const Masked m = Mask(Sample(), 0.15, 1, 1);
  for (int32_t i = 0; i < 128; ++i) {
    const bool chosen =
        std::find(m.rows.begin(), m.rows.end(), 100 + i) != m.rows.end();
    if (!chosen) {
      EXPECT_EQ(m.ids[i], Sample()[i]) << i;
    }
  }
}

TEST(MaskingTest, EveryPositionIsChosenSometimes) {
  std::vector<int> chosen(128, 0);
  for (int i = 0; i < 1000; ++i) {
    for (const int32_t row : Mask(Sample(), 0.15, 0, i).rows) {
      ++chosen[row - 100];
    }
  }
  EXPECT_EQ(chosen[0], 0);
  EXPECT_EQ(chosen[127], 0);
  for (int i = 1; i < 127; ++i) EXPECT_NEAR(chosen[i], 150, 60) << i;
}

TEST(MaskingTest, AtLeastOneLabel) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Mask({0, 57, 2}, 0.001, 0, i).labels, std::vector<int32_t>({57}));
  }
}

TEST(MaskingTest, SpecialTokensAlone) {
  const Masked m = Mask({0, 3, 3, 999, 1, 2}, 0.5, 0, 0);
  EXPECT_TRUE(m.labels.empty());
  EXPECT_EQ(m.ids, std::vector<int32_t>({0, 3, 3, 999, 1, 2}));
}

TEST(MaskingTest, AllTokens) {
  EXPECT_EQ(Mask(Sample(), 0.999999, 0, 0).labels.size(), 126u);
  EXPECT_EQ(MaxMaskLabels(128, 1.0), 127);
}

TEST(MaskingTest, FunctionOfItsKey) {
  const Masked m = Mask(Sample(), 0.15, 4, 5);
  EXPECT_EQ(m.ids, Mask(Sample(), 0.15, 4, 5).ids);
  EXPECT_NE(m.rows, Mask(Sample(), 0.15, 5, 5).rows);
  EXPECT_NE(m.rows, Mask(Sample(), 0.15, 4, 6).rows);
  EXPECT_NE(m.rows, Mask(Sample(), 0.15, 4, 5, 43).rows);
}

}  // namespace
}  // namespace comera::trainer
