// The other methods through the whole trainer: they learn, resume bit by bit,
// and do with two members what they do with one.
#include <cmath>
#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera::trainer {
namespace {

using Method = v1::CompressionSpec::Method;

constexpr int kSteps = 24, kLearningSteps = 120;

v1::JobSpec SpecOf(Method method) {
  v1::JobSpec spec = TinySpec();
  v1::CompressionSpec& compression = *spec.mutable_compression();
  compression.set_method(method);
  spec.mutable_objective()->mutable_early()->set_steps(kSteps);
  switch (method) {
    case v1::CompressionSpec::GALORE:
      compression.mutable_galore()->set_rank(4);
      compression.mutable_galore()->set_refresh_every_steps(7);
      break;
    case v1::CompressionSpec::LORA:
      compression.mutable_lora()->set_rank(4);
      break;
    case v1::CompressionSpec::LTE:
      // Shards of two samples: each of two ranks holds two heads, each of four
      // ranks one.
      compression.mutable_lte()->set_rank(1);
      compression.mutable_lte()->set_heads(4);
      compression.mutable_lte()->set_scale(2);
      compression.mutable_lte()->set_merge_every_steps(5);
      break;
    default:
      break;
  }
  return WithDefaults(spec);
}

class TrainerMethodsTest : public ::testing::TestWithParam<Method> {};

TEST_P(TrainerMethodsTest, TheLossFalls) {
  TestRun run;
  run.spec = SpecOf(GetParam());
  run.spec.mutable_objective()->mutable_early()->set_steps(kLearningSteps);
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_LT(run.Losses()[kSteps], 0.8 * run.Losses()[1]);
  // Only a model that looks at the words around can be this good.
  EXPECT_LT(run.end->result.validation_loss(), 0.5 * run.data.baseline_loss());
}

TEST_P(TrainerMethodsTest, ResumesBitByBit) {
  TestRun whole;
  whole.spec = SpecOf(GetParam());
  whole.Run();
  ASSERT_OK(whole.end);
  // Between two refreshes and two merges, and right at one of each.
  for (int64_t at : {4, 7, 9, 13}) {
    FakeDisk disk;
    TestRun first, second;
    first.spec = second.spec = whole.spec;
    first.disk = second.disk = &disk;
    first.stop_after_step = at;
    first.Run();
    ASSERT_OK(first.end);
    ASSERT_TRUE(first.end->stopped);
    second.resume = true;
    second.Run();
    ASSERT_OK(second.end);
    EXPECT_EQ(second.events.front().run_info().resumed_from_step(), at + 1);
    EXPECT_EQ(second.exported, whole.exported) << "resumed after " << at;
  }
}

TEST_P(TrainerMethodsTest, RanksDoWhatOneDoes) {
  TestRun one;
  one.spec = SpecOf(GetParam());
  one.Run();
  ASSERT_OK(one.end);
  for (int ranks : {2, 4}) {
    TestRun many;
    many.spec = one.spec;
    many.Run(ranks);
    for (const absl::Status& status : many.statuses) ASSERT_OK(status);
    const auto want = one.Losses();
    const auto got = many.Losses();
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [step, loss] : want) {
      EXPECT_NEAR(got.at(step), loss, 2e-4 * loss)
          << ranks << " ranks, step " << step;
    }
  }
}

TEST_P(TrainerMethodsTest, CountsWhatItSends) {
  TestRun run;
  run.spec = SpecOf(GetParam());
  run.Run();
  ASSERT_OK(run.end);
  const v1::StepMetrics metrics =
      run.Select(&v1::TrainerEvent::has_metrics).front().metrics();
  const ParameterLayout layout =
      MakeModelLayout(run.exported_config).parameters;
  EXPECT_EQ(metrics.synchronized_bytes(), 4 * layout.trained_size());
  EXPECT_EQ(metrics.size_parameters(), FixedSize(layout));
  EXPECT_EQ(static_cast<int64_t>(run.exported.size()), layout.size());
  const int64_t sent = metrics.synchronized_bytes();
  const int64_t dense = metrics.dense_synchronized_bytes();
  if (GetParam() == v1::CompressionSpec::DENSE ||
      GetParam() == v1::CompressionSpec::GALORE) {
    EXPECT_EQ(sent, dense);
  } else {
    EXPECT_LT(sent, dense);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, TrainerMethodsTest,
                         ::testing::Values(v1::CompressionSpec::DENSE,
                                           v1::CompressionSpec::GALORE,
                                           v1::CompressionSpec::LORA,
                                           v1::CompressionSpec::LTE,
                                           v1::CompressionSpec::COLA),
                         [](const auto& info) {
                           return v1::CompressionSpec::Method_Name(info.param);
                         });

TEST(TrainerMethodsTest, AFrozenWeightStaysAndAMergedOneMoves) {
  const auto weight_moves = [](Method method) {
    TestRun run;
    run.spec = SpecOf(method);
    run.spec.mutable_objective()->mutable_early()->set_steps(6);
    run.Run();
    EXPECT_OK(run.end);
    const ModelLayout layout = MakeModelLayout(run.exported_config);
    const Parameter& weight = layout.parameters[layout.parameters.Find(
        "encoder.layers.0.ffn.up.weight")];
    EXPECT_EQ(weight.kind, ParameterKind::kFrozen);
    const auto backend = kernels::CreateCpuBackend({1});
    auto model = CreateModel(run.exported_config, 1, backend.get());
    EXPECT_OK(model);
    std::vector<float> initial(layout.parameters.size());
    (*model)->Initialise(run.spec.training().seed(), initial.data());
    double moved = 0;
    for (int64_t i = weight.offset; i < weight.offset + weight.size; ++i) {
      moved += std::fabs(run.exported[i] - initial[i]);
    }
    return moved;
  };
  EXPECT_EQ(weight_moves(v1::CompressionSpec::LORA), 0);
  EXPECT_GT(weight_moves(v1::CompressionSpec::LTE), 0.01);
}

}  // namespace
}  // namespace comera::trainer
