// Tests what a run of a program reports becomes of a trainer's events.
#include "worker/trainer/program/program_events.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kStarted[] =
    R"({"event": "started", "time": 100.0, "step": 40, "steps": 140,
        "size": 5000, "dense_size": 80000,
        "front": [{"step": 20, "validation_loss": 3.0,
                   "size_parameters": 4000}]})";

ProgramEvents Events(double target_loss = 0, int64_t target_parameters = 0) {
  ProgramEvents::Options options;
  options.world_size = 2;
  options.device = "CPU, 1 threads";
  options.target_loss = target_loss;
  options.target_parameters = target_parameters;
  return ProgramEvents(options);
}

std::string Step(int64_t step, const std::string& loss, double time) {
  return absl::StrCat(R"({"event": "step", "time": )", time, R"(, "step": )",
                      step, R"(, "stage": "late", "loss": )", loss,
                      R"(, "size": 4500, "samples_per_second": 12.5})");
}

std::string Validation(int64_t step, double loss, int64_t size) {
  return absl::StrCat(R"({"event": "validation", "step": )", step,
                      R"(, "validation_loss": )", loss,
                      R"(, "size_parameters": )", size, "}");
}

TEST(ProgramEvents, AStartIsTheRunsFacts) {
  ProgramEvents events = Events();
  EXPECT_FALSE(events.started());
  ASSERT_OK_AND_ASSIGN(const auto news, events.Read(kStarted));
  ASSERT_THAT(news.events, SizeIs(1));
  const v1::RunInfo& info = news.events[0].run_info();
  EXPECT_EQ(info.initial_parameters(), 5000);
  EXPECT_EQ(info.dense_parameters(), 80000);
  EXPECT_EQ(info.total_steps(), 140);
  EXPECT_EQ(info.resumed_from_step(), 40);
  EXPECT_EQ(info.world_size(), 2);
  EXPECT_EQ(info.device(), "CPU, 1 threads");
  EXPECT_TRUE(events.started());
  EXPECT_EQ(events.step(), 40);
}

TEST(ProgramEvents, StepsBecomeMetricsWithStageAverageAndTimeLeft) {
  ProgramEvents events = Events(2.5, 1000);
  ASSERT_OK(events.Read(kStarted));
  ASSERT_OK_AND_ASSIGN(auto news, events.Read(Step(50, "4", 110)));
  EXPECT_THAT(news.events, IsEmpty());
  ASSERT_OK_AND_ASSIGN(news, events.Read(Step(60, "2", 115)));
  ASSERT_THAT(news.events, SizeIs(1));
  EXPECT_EQ(news.events[0].metrics().smoothed_loss(), 4);
  EXPECT_FALSE(news.events[0].metrics().has_eta());
  ASSERT_OK_AND_ASSIGN(
      news, events.Read(R"({"event": "at", "time": 116, "step": 61})"));
  ASSERT_THAT(news.events, SizeIs(1));
  const v1::StepMetrics& metrics = news.events[0].metrics();
  EXPECT_EQ(metrics.step(), 60);
  EXPECT_EQ(metrics.total_steps(), 140);
  EXPECT_EQ(metrics.stage(), v1::LATE);
  EXPECT_EQ(metrics.loss(), 2);
  EXPECT_NEAR(metrics.smoothed_loss(), (0.95 * 4 + 2) / 1.95, 1e-9);
  EXPECT_EQ(metrics.size_parameters(), 4500);
  EXPECT_EQ(metrics.size_bytes(), 18000);
  EXPECT_EQ(metrics.samples_per_second(), 12.5);
  EXPECT_EQ(metrics.target_loss(), 2.5);
  EXPECT_EQ(metrics.target_size_parameters(), 1000);
  // Ten steps took five seconds, and 80 are left.
  EXPECT_EQ(metrics.eta().seconds(), 40);
  EXPECT_EQ(events.stage(), v1::LATE);
}

TEST(ProgramEvents, ALossThatIsNotFiniteIsToldAndSpoilsNoAverage) {
  ProgramEvents events = Events();
  ASSERT_OK(events.Read(Step(1, "3", 1)));
  ASSERT_OK(events.Read(Step(2, "null", 2)));
  const auto last = events.Flush();
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_TRUE(std::isnan(last[0].metrics().loss()));
  EXPECT_EQ(last[0].metrics().smoothed_loss(), 3);
  EXPECT_THAT(events.Flush(), IsEmpty());
}

TEST(ProgramEvents, AStepAndItsValidationAreOneEvent) {
  ProgramEvents events = Events();
  ASSERT_OK(events.Read(Step(10, "3", 1)));
  ASSERT_OK(events.Read(R"({"event": "ranks", "step": 10, "ranks": {}})"));
  ASSERT_OK_AND_ASSIGN(auto news, events.Read(Validation(10, 2.5, 4500)));
  ASSERT_THAT(news.events, SizeIs(2));
  EXPECT_EQ(news.events[0].metrics().loss(), 3);
  EXPECT_EQ(news.events[0].metrics().validation_loss(), 2.5);
  EXPECT_TRUE(news.events[1].has_pareto_point());
  // The validation of a later step leaves the step's figures as they are.
  ASSERT_OK(events.Read(Step(20, "3", 2)));
  ASSERT_OK_AND_ASSIGN(news, events.Read(Validation(25, 2.6, 4500)));
  ASSERT_THAT(news.events, SizeIs(2));
  EXPECT_FALSE(news.events[0].metrics().has_validation_loss());
  EXPECT_EQ(news.events[1].metrics().step(), 25);
}

TEST(ProgramEvents, ValidationsMakeTheFrontTogetherWithTheRestoredOne) {
  ProgramEvents events = Events();
  ASSERT_OK(events.Read(kStarted));
  ASSERT_OK_AND_ASSIGN(auto news, events.Read(Validation(50, 3.5, 4500)));
  // The restored point beats it.
  ASSERT_THAT(news.events, SizeIs(1));
  EXPECT_EQ(news.events[0].metrics().validation_loss(), 3.5);
  ASSERT_OK_AND_ASSIGN(news, events.Read(Validation(60, 2.5, 4500)));
  ASSERT_THAT(news.events, SizeIs(2));
  EXPECT_EQ(news.events[1].pareto_point().step(), 60);
  ASSERT_OK(events.Read(Validation(70, 2.5, 4200)));
  const v1::TrainingResult result = events.Result(/*finished=*/true);
  ASSERT_THAT(result.pareto_front(), SizeIs(2));
  EXPECT_EQ(result.pareto_front(0).step(), 20);
  EXPECT_EQ(result.pareto_front(1).step(), 70);
  EXPECT_EQ(result.validation_loss(), 2.5);
  EXPECT_EQ(result.size_parameters(), 4200);
}

TEST(ProgramEvents, RanksKeepThoseThatALayerHadFirst) {
  ProgramEvents events = Events();
  ASSERT_OK(events.Read(
      R"({"event": "ranks", "step": 1, "ranks": {"up": [8, 4], "down": []}})"));
  ASSERT_OK_AND_ASSIGN(
      const auto news,
      events.Read(R"({"event": "ranks", "step": 9, "ranks": {"up": [3, 4]}})"));
  const v1::RankSnapshot& snapshot = news.events[0].rank_snapshot();
  EXPECT_EQ(snapshot.step(), 9);
  ASSERT_THAT(snapshot.layers(), SizeIs(1));
  EXPECT_EQ(snapshot.layers(0).layer(), "up");
  EXPECT_THAT(snapshot.layers(0).initial(), ElementsAre(8, 4));
  EXPECT_THAT(snapshot.layers(0).current(), ElementsAre(3, 4));
}

TEST(ProgramEvents, CheckpointsAreHandedOn) {
  ProgramEvents events = Events();
  ASSERT_OK_AND_ASSIGN(
      const auto news,
      events.Read(R"({"event": "checkpoint", "step": 5, "path": "/p/5.pt"})"));
  ASSERT_TRUE(news.saved.has_value());
  EXPECT_EQ(news.saved->step, 5);
  EXPECT_EQ(news.saved->path, "/p/5.pt");
  EXPECT_THAT(news.events, IsEmpty());
}

TEST(ProgramEvents, TheOutcomeIsOfTheJobsTargets) {
  const auto outcome = [](ProgramEvents events, const std::string& told,
                          double loss = 0) {
    if (loss > 0) {
      EXPECT_OK(events.Read(Validation(5, loss, 90)));
    }
    if (!told.empty()) {
      EXPECT_OK(events.Read(absl::StrCat(
          R"({"event": "ended", "step": 9, "outcome": ")", told, R"("})")));
    }
    return events.Result(/*finished=*/true).outcome();
  };
  EXPECT_EQ(outcome(Events(), "completed"), v1::COMPLETED);
  // The job has none, whatever the script had.
  EXPECT_EQ(outcome(Events(), "target_met"), v1::COMPLETED);
  EXPECT_EQ(outcome(Events(2, 100), "target_met", 1.9), v1::TARGET_MET);
  EXPECT_EQ(outcome(Events(2, 100), "completed", 1.9), v1::TARGET_MET);
  // What a program says of itself is not enough.
  EXPECT_EQ(outcome(Events(2, 100), "target_met", 2.1), v1::TARGET_MISSED);
  EXPECT_EQ(outcome(Events(2, 80), "target_met", 1.9), v1::TARGET_MISSED);
  EXPECT_EQ(outcome(Events(2, 100), "completed"), v1::TARGET_MISSED);
  // A program without a run says nothing.
  EXPECT_EQ(outcome(Events(), ""), v1::COMPLETED);
  EXPECT_EQ(Events().Result(/*finished=*/false).outcome(),
            v1::OUTCOME_UNSPECIFIED);
}

TEST(ProgramEvents, AResumedRunKnowsTheLossThatWasValidatedBefore) {
  ProgramEvents events = Events();
  ASSERT_OK(events.Read(kStarted));
  EXPECT_EQ(events.Result(/*finished=*/true).validation_loss(), 3.0);
}

TEST(ProgramEvents, WhatIsNoEventIsRefusedAndChangesNothing) {
  ProgramEvents events = Events();
  ASSERT_OK(events.Read(kStarted));
  for (const char* line :
       {"", "[]", "step 5", R"({"event": "step"})", R"({"event": 5})",
        R"({"event": "boom", "step": 5})",
        R"({"event": "step", "step": -1, "loss": 1, "size": 1})",
        R"({"event": "step", "step": 1.5, "loss": 1, "size": 1})",
        R"({"event": "step", "step": 1e300, "loss": 1, "size": 1})",
        R"({"event": "checkpoint", "step": 5})",
        R"({"event": "ranks", "step": 1, "ranks": {"a": 5}})",
        R"({"event": "ranks", "step": 1, "ranks": {"a": [-5]}})",
        R"({"event": "ended", "outcome": "completed"})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(events.Read(line).status())) << line;
  }
  EXPECT_FALSE(events.ended().has_value());
}

}  // namespace
}  // namespace comera::trainer
