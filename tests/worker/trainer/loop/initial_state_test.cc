// The state before the first step, and how it reaches all members of a gang.
#include "worker/trainer/loop/initial_state.h"

#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_parts.h"

namespace comera::trainer {
namespace {

absl::StatusOr<TrainingState> InitialStateOf(uint64_t seed) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_training()->set_seed(seed);
  TrainerParts parts(spec);
  parts.Make();
  std::vector<InitialWeightsReport::LayerError> errors;
  return MakeInitialState(parts.options, *parts.schedule, parts.model.get(),
                          &errors);
}

TEST(InitialStateTest, IsAFunctionOfTheSeed) {
  ASSERT_OK_AND_ASSIGN(const TrainingState one, InitialStateOf(1));
  ASSERT_OK_AND_ASSIGN(const TrainingState same, InitialStateOf(1));
  ASSERT_OK_AND_ASSIGN(const TrainingState other, InitialStateOf(2));
  EXPECT_EQ(one.Serialize().value(), same.Serialize().value());
  EXPECT_NE(one.parameters, other.parameters);
}

TEST(InitialStateTest, BeginsAtStep0WithAnOptimiserAtRest) {
  ASSERT_OK_AND_ASSIGN(const TrainingState state, InitialStateOf(1));
  EXPECT_EQ(state.progress.step, 0);
  EXPECT_EQ(state.progress.stage, v1::EARLY);
  EXPECT_GT(state.progress.initial_size, 0);
  EXPECT_EQ(state.first_moment,
            std::vector<float>(state.first_moment.size(), 0));
  EXPECT_EQ(state.second_moment,
            std::vector<float>(state.second_moment.size(), 0));
  EXPECT_FALSE(state.nearest.has_value());
  EXPECT_FALSE(state.branch.has_value());
}

TEST(InitialStateTest, InitialWeightsThatAreNotThereAreAnError) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_initial_weights()->set_safetensors("/no/such/file");
  TrainerParts parts(spec);
  parts.Make();
  std::vector<InitialWeightsReport::LayerError> errors;
  EXPECT_THAT(MakeInitialState(parts.options, *parts.schedule,
                               parts.model.get(), &errors),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace comera::trainer
