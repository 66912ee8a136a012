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

TEST(TrainerPrecisionTest, CompressedGradientsKeepLossesWithinHalfAPercent) {
  const auto train = [](bool compress) {
    TestRun run;
    run.spec = WideSpec(v1::TrainingSpec::FP32);
    run.spec.mutable_training()->set_compress_gradients(compress);
    run.Run(4);
    for (const absl::Status& status : run.statuses) EXPECT_OK(status);
    // All of a dense model is sent.
    const auto metrics = run.Select(&v1::TrainerEvent::has_metrics);
    EXPECT_EQ(metrics.at(0).metrics().synchronized_bytes() * (compress ? 2 : 1),
              metrics.at(0).metrics().dense_synchronized_bytes());
    return run.Losses();
  };
  const auto want = train(false), got = train(true);
  ASSERT_EQ(want.size(), 40);
  ASSERT_EQ(got.size(), 40);
  EXPECT_EQ(got.at(1), want.at(1)) << "the sum of losses is exact";
  EXPECT_NE(got.at(40), want.at(40)) << "nothing was rounded";
  EXPECT_LT(got.at(40), 0.7 * got.at(1)) << "nothing was learnt";
  for (const auto& [step, loss] : want) {
    EXPECT_NEAR(got.at(step), loss, 0.005 * loss) << "step " << step;
  }
  EXPECT_EQ(train(true), got) << "run twice";
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
