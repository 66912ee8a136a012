// The late stage: sizes that were asked for, lists of targets, each approached
// from the end of the early stage.
#include <algorithm>
#include <cmath>
#include <map>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Event = v1::TrainerEvent;

// The tiny job with every layer compressed and ranks enough for sizes to be
// fine; 20 steps early.
v1::JobSpec WideSpec() {
  v1::JobSpec spec = TinySpec();
  v1::CompressionSpec& compression = *spec.mutable_compression();
  for (auto* layer :
       {compression.mutable_embedding(), compression.mutable_attention(),
        compression.mutable_ffn_up(), compression.mutable_ffn_down(),
        compression.mutable_head()}) {
    layer->set_ranks(0, 12);
  }
  compression.clear_output();
  compression.mutable_output()->add_ranks(12);
  spec.mutable_objective()->mutable_early()->set_steps(20);
  // Slow enough not to learn the data by heart: pruning would then throw the
  // loss about.
  spec.mutable_optimizer()->set_learning_rate_cores(1e-3);
  spec.mutable_optimizer()->set_learning_rate_other(1e-3);
  return spec;
}

void AddTarget(v1::JobSpec& spec, double loss, double ratio) {
  v1::Target& target = *spec.mutable_objective()->mutable_late()->add_targets();
  target.set_target_loss(loss);
  target.set_target_ratio(ratio);
}

// Losses that no model reaches, so that every step is used.
v1::JobSpec ListSpec(const std::vector<double>& ratios, int64_t max_steps) {
  v1::JobSpec spec = WideSpec();
  for (double ratio : ratios) AddTarget(spec, 1e-9, ratio);
  spec.mutable_objective()->mutable_late()->set_max_steps(max_steps);
  return WithDefaults(spec);
}

v1::JobSpec SingleSpec(double ratio, int64_t max_steps) {
  v1::JobSpec spec = WideSpec();
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  late.set_target_loss(1e-9);
  late.set_target_ratio(ratio);
  late.set_max_steps(max_steps);
  return WithDefaults(spec);
}

std::vector<double> Ratios() { return {0.8, 0.5, 0.2}; }

const TestRun& ListRun() {
  static const TestRun* run = [] {
    auto* r = new TestRun;
    r->spec = ListSpec(Ratios(), 60);
    r->Run();
    return r;
  }();
  return *run;
}

TEST(TrainerTargetsTest, SizesEndWithinThreePerCentOfWhatWasAsked) {
  ASSERT_OK(ListRun().end);
  const v1::TrainingResult& result = ListRun().end->result;
  ASSERT_THAT(result.targets(), SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    const v1::TargetResult& target = result.targets(i);
    const double asked = target.target_size_parameters();
    EXPECT_LE(target.size_parameters(), asked);
    EXPECT_GE(target.size_parameters(), 0.97 * asked) << i;
    EXPECT_GT(target.validation_loss(), 0);
    EXPECT_EQ(target.steps(), 60);
    EXPECT_EQ(target.outcome(), v1::TARGET_MISSED);  // the loss
    // The header of the last one counts for all, and has fewer digits.
    EXPECT_NEAR(target.size_bytes(),
                ExportedBytes(ListRun().exported_targets.at(i).first), 200);
    EXPECT_GT(target.size_bytes(), 4 * target.size_parameters() + 1000);
  }
  EXPECT_EQ(result.outcome(), v1::TARGET_MISSED);
  EXPECT_THAT(result.reason(), HasSubstr("0 of 3 targets met"));
  // The size at the start of the late stage.
  const double full = result.targets(0).target_size_parameters() / 0.8;
  EXPECT_NEAR(result.targets(1).target_size_parameters(), 0.5 * full, 2);
  EXPECT_NEAR(result.targets(2).target_size_parameters(), 0.2 * full, 2);
}

TEST(TrainerTargetsTest, EveryTargetLeavesAModel) {
  const TestRun& run = ListRun();
  ASSERT_THAT(run.exported_targets, SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    const auto& [config, parameters] = run.exported_targets.at(i);
    const ModelLayout layout = MakeModelLayout(config);
    EXPECT_EQ(CountedModelSize(layout.parameters, layout.layers,
                               parameters.data(), 0.01f),
              run.end->result.targets(i).size_parameters());
  }
  // The last is the job's model.
  EXPECT_EQ(run.exported, run.exported_targets.at(2).second);
  EXPECT_EQ(run.end->result.size_parameters(),
            run.end->result.targets(2).size_parameters());
  EXPECT_EQ(run.end->result.validation_loss(),
            run.end->result.targets(2).validation_loss());
}

TEST(TrainerTargetsTest, OneFrontOfAllTargets) {
  const TestRun& run = ListRun();
  const double smallest = run.end->result.targets(2).target_size_parameters();
  bool small = false, large = false;
  for (const v1::ParetoPoint& point : run.end->result.pareto_front()) {
    small |= point.size_parameters() <= smallest;
    large |= point.size_parameters() > 2 * smallest;
  }
  EXPECT_TRUE(small);
  EXPECT_TRUE(large);
}

TEST(TrainerTargetsTest, MetricsTellTheTargetAndThePlan) {
  std::map<int, int> steps;
  const TestRun& run = ListRun();
  EXPECT_EQ(run.events.front().run_info().total_steps(), 20 + 3 * 60);
  int64_t step = 0;
  for (const Event& event : run.Select(&Event::has_metrics)) {
    const v1::StepMetrics& m = event.metrics();
    EXPECT_EQ(m.step(), ++step);
    EXPECT_EQ(m.total_steps(), 20 + 3 * 60);
    if (m.has_stepped_on_size()) ++steps[m.target_index()];
    EXPECT_EQ(m.has_stepped_on_size(), m.step() > 20) << m.step();
  }
  EXPECT_THAT(
      steps, ElementsAre(std::pair(0, 60), std::pair(1, 60), std::pair(2, 60)));
}

// Each target of a list is approached as if it were the only one.
TEST(TrainerTargetsTest, AListIsAsGoodAsOneJobPerTarget) {
  for (int i = 0; i < 3; ++i) {
    TestRun single;
    single.spec = SingleSpec(Ratios()[i], 60);
    single.Run();
    ASSERT_OK(single.end);
    EXPECT_EQ(single.exported, ListRun().exported_targets.at(i).second) << i;
    EXPECT_EQ(single.end->result.validation_loss(),
              ListRun().end->result.targets(i).validation_loss());
    EXPECT_THAT(single.exported_targets, SizeIs(0));
    ASSERT_THAT(single.end->result.targets(), SizeIs(1));
  }
}

class TrainerTargetsResumeTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(TrainerTargetsResumeTest, RepeatsTheUninterruptedRun) {
  FakeDisk disk;
  TestRun first;
  first.spec = ListSpec(Ratios(), 60);
  first.disk = &disk;
  first.stop_after_step = GetParam();
  first.Run();
  ASSERT_OK(first.end);
  ASSERT_TRUE(first.end->stopped);
  TestRun second;
  second.spec = first.spec;
  second.disk = &disk;
  second.resume = true;
  second.Run();
  ASSERT_OK(second.end);
  EXPECT_EQ(second.events.front().run_info().resumed_from_step(),
            GetParam() + 1);
  const auto want = ListRun().Losses();
  for (const auto& [step, loss] : second.Losses()) {
    ASSERT_EQ(loss, want.at(step)) << "step " << step;
  }
  EXPECT_EQ(second.end->result.SerializeAsString(),
            ListRun().end->result.SerializeAsString());
  EXPECT_EQ(second.exported, ListRun().exported);
  for (const auto& [index, model] : second.exported_targets) {
    EXPECT_EQ(model.second, ListRun().exported_targets.at(index).second);
  }
}

// Before the late stage, within a wave, beside both switches, and in the middle
// of the second and third target.
INSTANTIATE_TEST_SUITE_P(Steps, TrainerTargetsResumeTest,
                         ::testing::Values(18, 33, 78, 79, 101, 139, 160));

TEST(TrainerTargetsTest, RanksTakeTheDecisionsOfOneRank) {
  TestRun many;
  many.spec = ListSpec(Ratios(), 60);
  many.Run(/*members=*/2);
  for (const absl::Status& status : many.statuses) ASSERT_OK(status);
  const std::vector<Event> want = ListRun().Select(&Event::has_metrics);
  const std::vector<Event> got = many.Select(&Event::has_metrics);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const v1::StepMetrics &a = want[i].metrics(), &b = got[i].metrics();
    ASSERT_EQ(b.size_parameters(), a.size_parameters()) << a.step();
    ASSERT_EQ(b.stepped_on_size(), a.stepped_on_size()) << a.step();
    // Gradients add in another order, and training amplifies that.
    ASSERT_NEAR(b.loss(), a.loss(), 1e-2 * a.loss()) << a.step();
  }
  EXPECT_EQ(many.exported_config.layers_by_name.size(),
            ListRun().exported_config.layers_by_name.size());
  EXPECT_EQ(RanksOf(many.exported_config), RanksOf(ListRun().exported_config));
}

TEST(TrainerTargetsTest, TargetsThatAreMetEndAtOnceAndThePlanFalls) {
  TestRun run;
  run.spec = WideSpec();
  AddTarget(run.spec, 100, 1);     // met before its first step
  AddTarget(run.spec, 100, 0.7);   // the size alone
  AddTarget(run.spec, 1e-9, 0.9);  // never
  run.spec.mutable_objective()->mutable_late()->set_max_steps(80);
  run.spec = WithDefaults(run.spec);
  run.Run();
  ASSERT_OK(run.end);
  const v1::TrainingResult& result = run.end->result;
  EXPECT_EQ(result.targets(0).outcome(), v1::TARGET_MET);
  EXPECT_EQ(result.targets(0).steps(), 0);
  EXPECT_EQ(result.targets(1).outcome(), v1::TARGET_MET);
  EXPECT_LT(result.targets(1).steps(), 80);
  EXPECT_GT(result.targets(1).steps(), 1);
  EXPECT_EQ(result.targets(2).outcome(), v1::TARGET_MISSED);
  EXPECT_EQ(result.targets(2).steps(), 80);
  EXPECT_EQ(result.outcome(), v1::TARGET_MISSED);
  EXPECT_THAT(result.reason(), HasSubstr("2 of 3"));
  const int64_t all = 20 + result.targets(1).steps() + 80;
  EXPECT_EQ(result.step(), all);
  EXPECT_EQ(run.Select(&Event::has_metrics).back().metrics().total_steps(),
            all);
}

TEST(TrainerTargetsTest, AllMetIsTargetMet) {
  TestRun run;
  run.spec = WideSpec();
  AddTarget(run.spec, 100, 0.6);
  AddTarget(run.spec, 50, 0.8);
  run.spec.mutable_objective()->mutable_late()->set_max_steps(80);
  run.spec = WithDefaults(run.spec);
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_EQ(run.end->result.outcome(), v1::TARGET_MET)
      << run.end->result.reason();
  EXPECT_LT(run.end->result.step(), 20 + 160);
}

TEST(TrainerTargetsTest, MetAtTheStartOfTheLateStage) {
  TestRun run;
  run.spec = SingleSpec(1, 50);
  run.spec.mutable_objective()->mutable_late()->set_target_loss(100);
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_EQ(run.end->result.outcome(), v1::TARGET_MET);
  EXPECT_EQ(run.end->result.step(), 20);
}

TEST(TrainerTargetsTest, ASizeBelowWhatIsNeverPrunedIsMissedWithLayersLeft) {
  TestRun run;
  run.spec = SingleSpec(0.5, 40);
  run.spec.mutable_objective()->mutable_late()->set_target_parameters(50);
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_EQ(run.end->result.outcome(), v1::TARGET_MISSED);
  for (const auto& [name, layer] : run.exported_config.layers_by_name) {
    for (int64_t rank : layer.ranks) EXPECT_GE(rank, 1) << name;
  }
}

TEST(TrainerTargetsTest, ReferenceObjectiveTakesListsToo) {
  TestRun run;
  run.spec = ListSpec({0.9, 0.8}, 10);
  run.spec.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_THAT(run.end->result.targets(), SizeIs(2));
  EXPECT_EQ(run.end->result.step(), 40);
}

TEST(TrainerTargetsTest, CheckpointsThatDoNotFitTheTargetsAreRefused) {
  FakeDisk disk;
  TestRun first;
  first.spec = ListSpec(Ratios(), 60);
  first.disk = &disk;
  first.stop_after_step = 100;
  first.Run();
  ASSERT_OK(first.end);
  CheckpointStore store(std::make_unique<FakeCheckpointFiles>(&disk), {});
  ASSERT_OK_AND_ASSIGN(const auto loaded,
                       store.LoadNewest(SpecFingerprint(first.spec)));
  ASSERT_TRUE(loaded.has_value());
  ASSERT_TRUE(loaded->state.branch.has_value());
  ASSERT_TRUE(loaded->state.control.has_value());
  ASSERT_THAT(loaded->state.progress.outcomes, SizeIs(1));
  const auto expect_refused =
      [&](const std::function<void(TrainingState&)>& change) {
        TrainingState state = loaded->state;
        change(state);
        ASSERT_OK(store.Save(state));
        TestRun run;
        run.spec = first.spec;
        run.disk = &disk;
        run.resume = true;
        run.Run();
        EXPECT_FALSE(run.end.ok());
      };
  expect_refused([](TrainingState& s) { s.branch.reset(); });
  expect_refused([](TrainingState& s) { s.control.reset(); });
  expect_refused([](TrainingState& s) { s.branch->second_moment.pop_back(); });
  expect_refused([](TrainingState& s) { s.branch->ranks.clear(); });
  expect_refused([](TrainingState& s) { s.control->fade.push_back(0); });
  expect_refused([](TrainingState& s) { s.progress.outcomes.resize(3); });
  expect_refused([](TrainingState& s) { s.progress.stage = v1::EARLY; });
}

// The larger of the two terms decides alone, so that the size is met only if it
// is that one. Where the loss decides, how far the size falls on so few samples
// depends on the seed: in some runs it meets the target all the same.
TEST(TrainerTargetsTest, AchievementMeetsTheSizeAsFarAsTheLossAllows) {
  for (const double w_size : {1000.0, 1e-3}) {
    double share = 0;
    for (const int seed : {1, 4, 5}) {
      TestRun run;
      run.spec = SingleSpec(0.5, 120);
      run.spec.mutable_training()->set_seed(seed);
      v1::LateStage& late = *run.spec.mutable_objective()->mutable_late();
      late.set_mode(v1::LateStage::ACHIEVEMENT);
      late.set_w_size(w_size);
      // Fast enough that the loss holds on to rank entries.
      run.spec.mutable_optimizer()->set_learning_rate_cores(1e-2);
      run.spec.mutable_optimizer()->set_learning_rate_other(1e-2);
      run.spec.mutable_optimizer()->set_learning_rate_ranks(1e-2);
      run.Run();
      ASSERT_OK(run.end);
      const v1::TrainingResult& result = run.end->result;
      ASSERT_THAT(result.targets(), SizeIs(1));
      const auto target =
          static_cast<double>(result.targets(0).target_size_parameters());
      const double size = static_cast<double>(result.size_parameters());
      if (w_size > 1) {
        EXPECT_LE(size, target) << "seed " << seed;
        EXPECT_GE(size, 0.97 * target) << "seed " << seed;
      }
      share += size / target / 3;
    }
    if (w_size < 1) {
      EXPECT_GT(share, 1.2);
    }
  }
}

TEST(TrainerTargetsTest, ContinuingLowersTheLossAtTheTargetSize) {
  v1::JobSpec spec = SingleSpec(0.6, 120);
  spec.mutable_objective()->mutable_late()->set_target_loss(1.8);
  TestRun met;
  met.spec = spec;
  met.Run();
  ASSERT_OK(met.end);
  ASSERT_EQ(met.end->result.outcome(), v1::TARGET_MET);
  ASSERT_LT(met.end->result.step(), 140);
  spec.mutable_objective()->mutable_late()->set_continue_after_met(true);
  TestRun run;
  run.spec = spec;
  run.Run();
  ASSERT_OK(run.end);
  const v1::TrainingResult& result = run.end->result;
  EXPECT_EQ(result.outcome(), v1::TARGET_MET);
  EXPECT_EQ(result.step(), 140);
  EXPECT_LT(result.validation_loss(), met.end->result.validation_loss());
  EXPECT_LE(result.size_parameters(),
            result.targets(0).target_size_parameters());
}

}  // namespace
}  // namespace comera::trainer
