// One step's numbers: what a step leaves in the model, the progress and its
// figures, and what stops it.
#include "worker/trainer/loop/step_engine.h"

#include <cmath>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/loud_batches.h"
#include "tests/worker/trainer/loop/trainer_parts.h"
#include "tests/worker/trainer/loop/uneven_data.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// One good step; every parameter is NaN after it.
void StepThenLoseTheParameters(TrainerParts* parts) {
  parts->Make();
  parts->Load();
  parts->Steps(1);
  ModelState state;
  ASSERT_OK(parts->model->Download(&state));
  state.parameters.assign(state.parameters.size(), NAN);
  ASSERT_OK(parts->model->Restore(state, parts->schedule->phases().At(0)));
  ASSERT_OK(parts->engine->Rebind());
}

TEST(StepEngineTest, AStepUpdatesTheModelAndCountsItself) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  const std::vector<float> before = parts.Parameters();
  ASSERT_OK(parts.engine->Step(/*stop=*/false));
  ASSERT_OK(parts.engine->ReadAll());
  EXPECT_EQ(parts.progress.step, 1);
  EXPECT_EQ(parts.engine->last().step, 1);
  EXPECT_EQ(parts.engine->last().stage, v1::EARLY);
  EXPECT_GT(parts.engine->last().gradient_norm, 0);
  EXPECT_GT(parts.engine->last().objective.size, 0);
  // The first loss is the whole average.
  EXPECT_DOUBLE_EQ(parts.progress.loss.value(), parts.engine->last().loss);
  EXPECT_NE(parts.Parameters(), before);
}

TEST(StepEngineTest, FiguresReadBehindAStepAreHandedOutInOrder) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  parts.Steps(3);
  ASSERT_THAT(parts.figures, SizeIs(3));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(parts.figures[i].step, i + 1);
}

TEST(StepEngineTest, ReadAllHandsNothingOut) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  ASSERT_OK(parts.engine->Step(/*stop=*/false));
  ASSERT_OK(parts.engine->ReadAll());
  EXPECT_THAT(parts.figures, SizeIs(0));
  EXPECT_EQ(parts.engine->last().step, 1);
}

TEST(StepEngineTest, RemembersTheFirstStepThatWasAskedToStop) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  parts.Steps(2);
  EXPECT_EQ(parts.engine->stop_step(), -1);
  ASSERT_OK(parts.engine->Step(/*stop=*/true));
  ASSERT_OK(parts.engine->Step(/*stop=*/true));
  ASSERT_OK(parts.engine->CatchUp());
  EXPECT_EQ(parts.engine->stop_step(), 3);
}

TEST(StepEngineTest, RebindingInBetweenChangesNoNumber) {
  std::vector<float> parameters[2];
  for (const bool rebind : {false, true}) {
    TrainerParts parts;
    parts.Make();
    parts.Load();
    parts.Steps(2);
    if (rebind) {
      ASSERT_OK(parts.engine->Rebind());
    }
    parts.Steps(2);
    parameters[rebind] = parts.Parameters();
  }
  EXPECT_EQ(parameters[0], parameters[1]);
}

TEST(StepEngineTest, ALossThatIsNotFiniteNamesItsStep) {
  TrainerParts parts;
  ASSERT_NO_FATAL_FAILURE(StepThenLoseTheParameters(&parts));
  absl::Status status = parts.engine->Step(/*stop=*/false);
  status.Update(parts.engine->CatchUp());
  EXPECT_EQ(FailureClassOf(status), v1::NAN_LOSS);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 2"));
}

TEST(StepEngineTest, AnErrorThatOneMemberReadsAloneComesWithTheNextStep) {
  TrainerParts parts;
  ASSERT_NO_FATAL_FAILURE(StepThenLoseTheParameters(&parts));
  ASSERT_OK(parts.engine->Step(/*stop=*/false));
  EXPECT_FALSE(parts.engine->CatchUpAlone());
  const absl::Status status = parts.engine->Step(/*stop=*/false);
  EXPECT_EQ(FailureClassOf(status), v1::NAN_LOSS);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 2"));
}

TEST(StepEngineTest, ASpikeChangesNeitherParametersNorMoments) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_training()->set_spike_factor(10);
  const LoudData data(25, 26);
  TrainerParts parts(spec);
  parts.options.data = &data;
  parts.options.model_factory = LoudModel::Create;
  parts.Make();
  parts.Load();
  parts.Steps(25);
  ModelState before, after;
  ASSERT_OK(parts.model->Download(&before));
  EXPECT_EQ(parts.progress.spikes.skipped, 0);
  parts.Steps(1);
  ASSERT_OK(parts.model->Download(&after));
  EXPECT_EQ(after.parameters, before.parameters);
  EXPECT_EQ(after.first_moment, before.first_moment);
  EXPECT_EQ(after.second_moment, before.second_moment);
  // It counts as a step all the same, and its figures are handed out.
  EXPECT_EQ(parts.progress.step, 26);
  EXPECT_EQ(parts.progress.spikes.skipped, 1);
  ASSERT_THAT(parts.figures, SizeIs(26));
  EXPECT_TRUE(parts.figures[25].left_out);
  EXPECT_GT(parts.figures[25].loss, 0);
  EXPECT_GT(parts.figures[25].gradient_norm, 10 * parts.progress.spikes.mean());
  EXPECT_THAT(parts.events, SizeIs(1));
  parts.Steps(1);
  EXPECT_FALSE(parts.figures[26].left_out);
  EXPECT_EQ(parts.figures[26].objective.size, parts.figures[25].objective.size);
  EXPECT_NE(parts.Parameters(), before.parameters);
}

TEST(StepEngineTest, AWatchThatFindsNothingChangesNoNumber) {
  std::vector<float> parameters[2];
  for (const bool watch : {false, true}) {
    v1::JobSpec spec = TinySpec();
    if (watch) spec.mutable_training()->set_spike_factor(1000);
    TrainerParts parts(spec);
    parts.Make();
    parts.Load();
    parts.Steps(12);
    parameters[watch] = parts.Parameters();
  }
  EXPECT_EQ(parameters[0], parameters[1]);
}

TEST(StepEngineTest, CountsLabelsAndTokensOfAllParts) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_training()->set_accumulate(4);
  const UnevenData data;
  TrainerParts parts(spec);
  parts.options.data = &data;
  parts.Make();
  parts.Load();
  parts.Steps(3);
  int64_t tokens = 0, labels = 0;
  for (int64_t step = 0; step < 3; ++step) {
    const auto [of_tokens, of_labels] = data.Count(step, 8);
    tokens += of_tokens;
    labels += of_labels;
    EXPECT_EQ(parts.figures[step].tokens, tokens) << step;
  }
  EXPECT_EQ(parts.progress.label_tokens, labels);
  EXPECT_LT(labels, 3 * 16);
  EXPECT_LT(tokens, 3 * 64);
}

TEST(StepEngineTest, ErrorsOfTheDataComeThrough) {
  TrainerParts parts;
  parts.Make();
  parts.data.set_failing_step(1);
  parts.Load();
  parts.Steps(1);
  EXPECT_THAT(parts.engine->Step(/*stop=*/false),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(parts.progress.step, 1);
}

}  // namespace
}  // namespace comera::trainer
