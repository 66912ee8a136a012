// Updates within the backward pass: the same steps as after it, in less memory.
#include "worker/trainer/step/layerwise_update.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_parts.h"
#include "worker/collective/in_process_communicator.h"
#include "worker/trainer/model/plan/gradient_blocks.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kSteps = 8;

v1::JobSpec SpecOf(bool per_layer, bool tied = false) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_model()->set_layers(2);
  spec.mutable_model()->set_tie_output(tied);
  v1::CompressionSpec& compression = *spec.mutable_compression();
  compression.Clear();
  compression.set_method(v1::CompressionSpec::GALORE);
  compression.mutable_galore()->set_rank(4);
  compression.mutable_galore()->set_refresh_every_steps(3);
  compression.mutable_galore()->set_per_layer(per_layer);
  v1::OptimizerSpec& optimizer = *spec.mutable_optimizer();
  optimizer.set_clip_norm(0);
  optimizer.set_weight_decay(0.01);
  // Gradients that are 0 but for rounding do not move anything.
  optimizer.set_epsilon(1e-3);
  return WithDefaults(spec);
}

std::unique_ptr<TrainerParts> Loaded(const v1::JobSpec& spec) {
  auto parts = std::make_unique<TrainerParts>(spec);
  parts->Make();
  parts->Load();
  return parts;
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want,
                double error, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], error) << what << "[" << i << "]";
  }
}

class LayerwiseUpdateTest : public ::testing::TestWithParam<bool> {};

TEST_P(LayerwiseUpdateTest, StepsAreThoseOfTheWholePass) {
  const auto whole = Loaded(SpecOf(false, /*tied=*/GetParam()));
  const auto layerwise = Loaded(SpecOf(true, /*tied=*/GetParam()));
  const std::vector<float> start = whole->Parameters();
  ASSERT_EQ(layerwise->Parameters(), start);
  for (int step = 1; step <= kSteps; ++step) {
    for (TrainerParts* parts : {whole.get(), layerwise.get()}) {
      ASSERT_OK(parts->engine->Step(/*stop=*/false));
      ASSERT_OK(parts->engine->ReadAll());
      EXPECT_EQ(parts->progress.step, step);
    }
    const StepFigures& want = whole->engine->last();
    const StepFigures& got = layerwise->engine->last();
    EXPECT_EQ(got.step, want.step);
    EXPECT_NEAR(got.loss, want.loss, 1e-5);
    EXPECT_NEAR(got.gradient_norm, want.gradient_norm,
                1e-4 * want.gradient_norm);
    EXPECT_EQ(got.objective.size, want.objective.size);
  }
  EXPECT_NEAR(layerwise->progress.loss.value(), whole->progress.loss.value(),
              1e-5);
  ModelState want, got;
  ASSERT_OK(whole->model->Download(&want));
  ASSERT_OK(layerwise->model->Download(&got));
  EXPECT_NE(want.parameters, start);
  ExpectNear(got.parameters, want.parameters, 1e-5, "parameters");
  ExpectNear(got.first_moment, want.first_moment, 2e-6, "first moment");
  ExpectNear(got.second_moment, want.second_moment, 2e-6, "second moment");
}

TEST_P(LayerwiseUpdateTest, HoldsTheGradientsOfOneBlock) {
  const auto whole = Loaded(SpecOf(false, /*tied=*/GetParam()));
  const auto layerwise = Loaded(SpecOf(true, /*tied=*/GetParam()));
  ModelPlan& plan = *layerwise->model->plan();
  const GradientBlocks blocks(plan.config(), plan.model().layout());
  EXPECT_EQ(plan.gradients().size, blocks.buffer_size());
  EXPECT_EQ(plan.trained_size(), whole->model->plan()->trained_size());
  EXPECT_LT(2 * plan.gradients().size, whole->model->plan()->gradients().size);
}

INSTANTIATE_TEST_SUITE_P(Outputs, LayerwiseUpdateTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Tied" : "Untied";
                         });

TEST(LayerwiseUpdateTest, ALossThatIsNotFiniteChangesNothing) {
  const auto parts = Loaded(SpecOf(true));
  parts->Steps(1);
  ModelState state;
  ASSERT_OK(parts->model->Download(&state));
  const std::vector<float> first_moment = state.first_moment;
  state.parameters.assign(state.parameters.size(), NAN);
  ASSERT_OK(parts->model->Restore(state, parts->schedule->phases().At(0)));
  ASSERT_OK(parts->engine->Rebind());
  const absl::Status status = parts->engine->Step(/*stop=*/false);
  EXPECT_EQ(FailureClassOf(status), v1::NAN_LOSS);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 2"));
  ASSERT_OK(parts->model->Download(&state));
  EXPECT_EQ(state.first_moment, first_moment);
}

TEST(LayerwiseUpdateTest, RemembersThatItWasAskedToStop) {
  const auto parts = Loaded(SpecOf(true));
  parts->Steps(1);
  EXPECT_EQ(parts->engine->stop_step(), -1);
  ASSERT_OK(parts->engine->Step(/*stop=*/true));
  EXPECT_EQ(parts->engine->stop_step(), 2);
}

TEST(LayerwiseUpdateTest, IsForOneProcess) {
  const auto gang = collective::CreateInProcessGroup(2);
  TrainerParts parts(SpecOf(true));
  parts.options.communicator = gang[0].get();
  const TrainingSchedule schedule(&parts.options.spec);
  EXPECT_THAT(TrainedModel::InitialConfig(parts.options, schedule),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("compression.galore.per_layer")));
}

// Says what the norms of the blocks are, and keeps which blocks it was given.
class FakeOptimizer : public Optimizer {
 public:
  explicit FakeOptimizer(std::vector<double> norms)
      : norms_(std::move(norms)) {}

  absl::StatusOr<double> Step(int64_t, double, kernels::Vector,
                              kernels::ConstVector,
                              const OptimizerState&) override {
    return absl::UnimplementedError("Step");
  }
  absl::StatusOr<double> StepBlock(int64_t, double, const ParameterRange& block,
                                   kernels::Vector, kernels::ConstVector,
                                   const OptimizerState&) override {
    blocks_.push_back(block);
    return blocks_.size() <= norms_.size() ? norms_[blocks_.size() - 1] : 0;
  }

  const std::vector<ParameterRange>& blocks() const { return blocks_; }

 private:
  const std::vector<double> norms_;
  std::vector<ParameterRange> blocks_;
};

// One backward pass of the tiny job with this optimiser; its norm.
absl::StatusOr<double> RunWith(Optimizer* optimizer) {
  const auto parts = Loaded(SpecOf(true));
  Batch batch;
  RETURN_IF_ERROR(parts->data.TrainBatch(0, 8, 0, 1, &batch));
  ModelPlan& plan = *parts->model->plan();
  RETURN_IF_ERROR(plan.model().Forward(batch, plan.parameters().data,
                                       /*train=*/true,
                                       parts->engine->device_state()));
  LayerwiseUpdate update({}, &plan, optimizer, parts->backend.get());
  return update.Run();
}

TEST(LayerwiseUpdateTest, TheNormIsThatOfAllBlocks) {
  FakeOptimizer optimizer({3, 0, 4});
  ASSERT_OK_AND_ASSIGN(const double norm, RunWith(&optimizer));
  EXPECT_DOUBLE_EQ(norm, 5);
  // The head, two halves of two layers, the embedding.
  ASSERT_THAT(optimizer.blocks(), SizeIs(6));
  for (size_t i = 1; i < optimizer.blocks().size(); ++i) {
    EXPECT_LT(optimizer.blocks()[i].first, optimizer.blocks()[i - 1].first);
  }
}

TEST(LayerwiseUpdateTest, NoBlockIsUpdatedAfterOneThatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    FakeOptimizer optimizer({3, bad, 4});
    ASSERT_OK_AND_ASSIGN(const double norm, RunWith(&optimizer));
    EXPECT_FALSE(std::isfinite(norm));
    EXPECT_THAT(optimizer.blocks(), SizeIs(2));
  }
}

}  // namespace
}  // namespace comera::trainer
