// The events of a run: what they hold, when metrics are due, and who reports.
#include "worker/trainer/loop/step_reporter.h"

#include <cmath>
#include <optional>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_parts.h"
#include "worker/collective/in_process_communicator.h"
#include "worker/trainer/planning/step_prediction.h"

namespace comera::trainer {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

StepFigures FiguresOf(int64_t step) {
  StepFigures figures;
  figures.step = step;
  figures.loss = 1.5;
  figures.objective.size = 1000.4;
  return figures;
}

TEST(StepReporterTest, RunInfoSaysWhatTheRunIs) {
  TrainerParts parts;
  parts.options.device = "a processor";
  parts.Make();
  parts.Load();
  parts.reporter->set_initial_errors({{"head", 0.25}});
  parts.reporter->Begin(7);
  parts.reporter->ReportRunInfo();
  ASSERT_THAT(parts.events, SizeIs(1));
  const v1::RunInfo& info = parts.events[0].run_info();
  EXPECT_EQ(info.total_steps(), 30);
  EXPECT_EQ(info.world_size(), 1);
  EXPECT_EQ(info.resumed_from_step(), 7);
  EXPECT_EQ(info.device(), "a processor");
  EXPECT_EQ(info.initial_parameters(), parts.progress.initial_size);
  ASSERT_THAT(info.initial_errors(), SizeIs(1));
  EXPECT_EQ(info.initial_errors(0).relative_error(), 0.25);
}

TEST(StepReporterTest, MetricsAreDueAtIntervalsAndAfterTheFirstStep) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_training()->set_report_every_steps(10);
  TrainerParts parts(spec);
  parts.Make();
  parts.reporter->Begin(12);
  EXPECT_TRUE(parts.reporter->MetricsDue(FiguresOf(13)));
  EXPECT_FALSE(parts.reporter->MetricsDue(FiguresOf(14)));
  EXPECT_TRUE(parts.reporter->MetricsDue(FiguresOf(20)));
}

TEST(StepReporterTest, ThroughputIsThatSinceTheLastReport) {
  TrainerParts parts;  // batches of 8
  parts.Make();
  parts.Load();
  parts.reporter->Begin(0);
  parts.reporter->StartClock();
  parts.clock.Advance(absl::Seconds(4));
  parts.reporter->ReportMetrics(FiguresOf(2), /*validated=*/false);
  parts.clock.Advance(absl::Seconds(8));
  parts.reporter->ReportMetrics(FiguresOf(10), /*validated=*/false);
  // The same step again, as after a validation, keeps the rate.
  parts.clock.Advance(absl::Seconds(100));
  parts.reporter->ReportMetrics(FiguresOf(10), /*validated=*/false);
  ASSERT_THAT(parts.events, SizeIs(3));
  EXPECT_DOUBLE_EQ(parts.events[0].metrics().samples_per_second(), 4);
  EXPECT_EQ(parts.events[0].metrics().eta().seconds(), 2 * 28);
  EXPECT_DOUBLE_EQ(parts.events[1].metrics().samples_per_second(), 8);
  EXPECT_DOUBLE_EQ(parts.events[2].metrics().samples_per_second(), 8);
}

TEST(StepReporterTest, TokensAreThoseSinceTheLastReport) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  parts.reporter->Begin(0);
  parts.reporter->StartClock();
  StepFigures figures = FiguresOf(2);
  figures.tokens = 100;
  parts.clock.Advance(absl::Seconds(4));
  parts.reporter->ReportMetrics(figures, /*validated=*/false);
  figures.step = 10;
  figures.tokens = 500;
  parts.clock.Advance(absl::Seconds(8));
  parts.reporter->ReportMetrics(figures, /*validated=*/false);
  ASSERT_THAT(parts.events, SizeIs(2));
  EXPECT_DOUBLE_EQ(parts.events[0].metrics().tokens_per_second(), 25);
  EXPECT_DOUBLE_EQ(parts.events[1].metrics().tokens_per_second(), 50);
}

TEST(StepReporterTest, UtilisationIsTheModelsWorkOverAMeasuredPeak) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_training()->set_accumulate(2);
  TrainerParts parts(spec);
  parts.options.machine.square_rate = 1e9;
  parts.Make();
  parts.Load();
  parts.reporter->Begin(0);
  parts.reporter->StartClock();
  StepFigures figures = FiguresOf(10);
  figures.tokens = 10 * 32;  // half of what batches of 8 x 8 tokens hold
  parts.clock.Advance(absl::Seconds(5));
  parts.reporter->ReportMetrics(figures, /*validated=*/false);
  parts.options.machine_is_measured = true;
  parts.reporter->ReportMetrics(figures, /*validated=*/false);
  ASSERT_THAT(parts.events, SizeIs(2));
  EXPECT_FALSE(parts.events[0].metrics().has_model_flops_utilisation());
  ASSERT_OK_AND_ASSIGN(
      const StepPrediction step,
      PredictStep(parts.model->plan()->config(), 4, parts.options.machine, 2));
  EXPECT_GT(step.multiply_adds(), 0);
  EXPECT_DOUBLE_EQ(parts.events[1].metrics().model_flops_utilisation(),
                   step.multiply_adds() / 2 / 0.5 / 1e9);
}

TEST(StepReporterTest, ALossOfTokensIsAPerplexity) {
  class Text : public FakeTrainingData {
   public:
    std::optional<double> validation_bytes_per_token() const override {
      return 4;
    }
  };
  const Text text;
  TrainerParts parts;
  parts.options.data = &text;
  parts.Make();
  parts.Load();
  parts.progress.validation.loss = 2;
  parts.reporter->ReportMetrics(FiguresOf(1), /*validated=*/false);
  parts.reporter->ReportMetrics(FiguresOf(1), /*validated=*/true);
  parts.options.spec.mutable_model()->set_family(
      v1::ModelSpec::ENCODER_CLASSIFIER);
  parts.reporter->ReportMetrics(FiguresOf(1), /*validated=*/true);
  ASSERT_THAT(parts.events, SizeIs(3));
  EXPECT_FALSE(parts.events[0].metrics().has_validation_perplexity());
  const v1::StepMetrics& m = parts.events[1].metrics();
  EXPECT_DOUBLE_EQ(m.validation_perplexity(), std::exp(2.0));
  EXPECT_DOUBLE_EQ(m.validation_bits_per_byte(), 2 / std::log(2.0) / 4);
  EXPECT_FALSE(parts.events[2].metrics().has_validation_perplexity());
  EXPECT_FALSE(parts.events[2].metrics().has_validation_bits_per_byte());
}

TEST(StepReporterTest, MetricsHoldTheFiguresOfAValidationOnlyAfterOne) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  parts.progress.validation.loss = 1.25;
  parts.progress.validation.auc = Estimate{0.75, 0.01};
  parts.reporter->ReportMetrics(FiguresOf(1), /*validated=*/false);
  parts.reporter->ReportMetrics(FiguresOf(1), /*validated=*/true);
  ASSERT_THAT(parts.events, SizeIs(2));
  EXPECT_FALSE(parts.events[0].metrics().has_validation_loss());
  EXPECT_EQ(parts.events[1].metrics().validation_loss(), 1.25);
  EXPECT_EQ(parts.events[1].metrics().validation_auc(), 0.75);
  EXPECT_EQ(parts.events[1].metrics().size_parameters(), 1000);
  EXPECT_FALSE(parts.events[1].metrics().has_stepped_on_size());
}

TEST(StepReporterTest, EveryKindOfEventOnce) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  parts.progress.step = 5;
  ASSERT_OK(parts.reporter->ReportRanks());
  parts.reporter->ReportParetoPoint({5, 1.5, 900});
  parts.reporter->ReportCheckpoint(77, /*snapshot=*/true);
  parts.reporter->ReportIncident(v1::DISK_FULL, "no space");
  v1::TrainingResult result;
  result.set_step(5);
  parts.reporter->ReportResult(result);
  ASSERT_THAT(parts.events, SizeIs(5));
  EXPECT_EQ(parts.events[0].rank_snapshot().step(), 5);
  EXPECT_EQ(parts.events[1].pareto_point().size_parameters(), 900);
  EXPECT_EQ(parts.events[2].checkpoint().size_bytes(), 77);
  EXPECT_TRUE(parts.events[2].checkpoint().snapshot());
  EXPECT_EQ(parts.events[3].incident().failure_class(), v1::DISK_FULL);
  EXPECT_EQ(parts.events[4].result().step(), 5);
}

TEST(StepReporterTest, OtherMembersReportNothing) {
  auto gang = collective::CreateInProcessGroup(2);
  TrainerParts parts;
  parts.options.communicator = gang[1].get();
  parts.Make();
  parts.Load();
  parts.reporter->ReportRunInfo();
  ASSERT_OK(parts.reporter->ReportRanks());
  parts.reporter->ReportMetrics(FiguresOf(1), /*validated=*/true);
  parts.reporter->ReportIncident(v1::DISK_FULL, "no space");
  EXPECT_THAT(parts.events, IsEmpty());
}

}  // namespace
}  // namespace comera::trainer
