// The fused feed-forward layer is chosen where thin ranks pay.
#include "kernels/contraction/ffn_cost.h"

#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

constexpr MachineSpeed kSpeed;

TEST(FfnCostTest, GrowsWithEverySize) {
  const RankSpaceFfnShape shape = {4096, 3072, 30, 30};
  for (auto seconds : {HiddenFfnSeconds, RankSpaceFfnSeconds}) {
    const double base = seconds(shape, kSpeed).total();
    for (const RankSpaceFfnShape& larger :
         {RankSpaceFfnShape{8192, 3072, 30, 30},
          RankSpaceFfnShape{4096, 6144, 30, 30},
          RankSpaceFfnShape{4096, 3072, 60, 30},
          RankSpaceFfnShape{4096, 3072, 30, 60}}) {
      EXPECT_GT(seconds(larger, kSpeed).total(), 1.1 * base);
    }
    EXPECT_GT(seconds(shape, kSpeed).backward, seconds(shape, kSpeed).forward);
  }
}

TEST(FfnCostTest, ThinRanksPay) {
  for (int64_t rank : {1, 8, 30, 64, 128}) {
    EXPECT_TRUE(RankSpaceFfnPays({4096, 3072, rank, rank}, kSpeed)) << rank;
  }
  EXPECT_TRUE(RankSpaceFfnPays({128, 3072, 30, 30}, kSpeed));
}

}  // namespace
}  // namespace comera::kernels
