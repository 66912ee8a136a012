// What is known of every split, and of a few.
#include "kernels/product_split.h"

#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

TEST(ProductSplitTest, PathsBySize) {
  EXPECT_EQ(PathOf(64, 64, 64), ProductPath::kFloat32);
  EXPECT_EQ(PathOf(128, 128, 128), ProductPath::kFloat32);
  EXPECT_EQ(PathOf(128, 1024, 128), ProductPath::kTensorCores);
  EXPECT_EQ(PathOf(256, 128, 2048), ProductPath::kTensorCores);
  EXPECT_EQ(PathOf(8192, 128, 1024), ProductPath::kAlone);
  EXPECT_EQ(PathOf(int64_t{1} << 62, int64_t{1} << 62, 1), ProductPath::kAlone);
}

TEST(ProductSplitTest, SmallProductsDoWithoutCublas) {
  EXPECT_TRUE(IsSmallProduct(1, 3, 768));
  EXPECT_TRUE(IsSmallProduct(128, 30, 768));
  EXPECT_TRUE(IsSmallProduct(16, 16, 16384));
  EXPECT_FALSE(IsSmallProduct(256, 30, 768));
  EXPECT_FALSE(IsSmallProduct(1, 1, 16385));
  EXPECT_FALSE(IsSmallProduct(int64_t{1} << 62, int64_t{1} << 62, 1));
}

TEST(ProductSplitTest, PartsCoverTheInnerSize) {
  for (const int64_t m : {1, 16, 128, 1000}) {
    for (const int64_t n : {1, 33, 128, 1024}) {
      for (const int64_t k : {1, 255, 257, 1000, 8192, 100'000}) {
        const ProductPath path = PathOf(m, n, k);
        if (path == ProductPath::kAlone) continue;
        const ProductSplit split = SplitProduct(path, m, n, k);
        EXPECT_GE(split.parts * split.part_inner, k);
        EXPECT_LT((split.parts - 1) * split.part_inner, k);
        EXPECT_EQ(split.part_inner % 32, 0);
        EXPECT_LE(split.scratch_floats, GroupedLaunches::kScratchFloats);
        EXPECT_EQ(split.scratch_floats > 0, split.parts > 1);
      }
    }
  }
  EXPECT_EQ(SplitProduct(ProductPath::kTensorCores, 128, 128, 1024).parts, 4);
  EXPECT_EQ(SplitProduct(ProductPath::kTensorCores, 128, 1024, 128).parts, 1);
  EXPECT_EQ(SplitProduct(ProductPath::kFloat32, 16, 16, 8192).parts, 32);
}

TEST(GroupedLaunchesTest, BeginsALaunchWhereTheLastIsFull) {
  GroupedLaunches tasks;
  for (int64_t i = 0; i <= 2 * GroupedLaunches::kMostTasks; ++i) {
    EXPECT_EQ(tasks.Add({}), i % GroupedLaunches::kMostTasks == 0);
  }
  EXPECT_EQ(tasks.launches(), 3);
  GroupedLaunches products;
  const ProductSplit split =
      SplitProduct(ProductPath::kTensorCores, 128, 128, 1024);
  for (int64_t i = 0; i <= GroupedLaunches::kScratchFloats; i += 4 * 4 * 4096) {
    products.Add(split);
  }
  EXPECT_EQ(products.launches(), 2);
}

}  // namespace
}  // namespace comera::kernels
