// Training with bfloat16 products.
#include <cmath>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/loop/trainer_harness.h"

namespace comera::trainer {
namespace {

// Wide enough for its products to be rounded; dense, so that all are.
v1::JobSpec WideSpec(v1::TrainingSpec::Precision precision) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_model()->set_hidden(64);
  spec.mutable_model()->set_ffn(128);
  spec.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  spec.mutable_objective()->mutable_early()->set_steps(40);
  spec.mutable_optimizer()->set_learning_rate_other(1e-3);
  spec.mutable_training()->set_batch_size(16);
  spec.mutable_training()->set_precision(precision);
  return spec;
}

TestRun Train(v1::TrainingSpec::Precision precision) {
  TestRun run;
  run.spec = WideSpec(precision);
  run.Run();
  return run;
}

TEST(TrainerPrecisionTest, LossesStayWithinThreePercentOfFloat32) {
  if (!kernels::CpuHasBf16()) {
    GTEST_SKIP() << "this processor has no avx512_bf16";
  }
  const TestRun single = Train(v1::TrainingSpec::FP32);
  const TestRun half = Train(v1::TrainingSpec::BF16);
  ASSERT_OK(single.end);
  ASSERT_OK(half.end);
  const auto want = single.Losses(), got = half.Losses();
  ASSERT_EQ(want.size(), 40);
  ASSERT_EQ(got.size(), 40);
  EXPECT_NE(want.at(1), got.at(1)) << "nothing was rounded";
  EXPECT_LT(got.at(40), 0.7 * got.at(1)) << "nothing was learnt";
  for (const auto& [step, loss] : want) {
    EXPECT_NEAR(got.at(step), loss, 0.03 * loss) << "step " << step;
  }
  EXPECT_EQ(Train(v1::TrainingSpec::BF16).Losses(), got) << "run twice";
}

}  // namespace
}  // namespace comera::trainer
