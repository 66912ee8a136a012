// Steps run eagerly once, are captured, and are replayed from then on.
#include "worker/trainer/step/step_runner.h"

#include <memory>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/fakes/recording_backend.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class StepRunnerTest : public ::testing::Test {
 protected:
  // Adds 1 to number `i`; the host's part is counted.
  absl::StatusOr<bool> Step(StepRunner& runner, int64_t i) {
    return runner.Run({7, i}, [&]() -> absl::Status {
      ++calls_;
      absl::Status status = backend_.Scale(1, {&numbers_[i], 1});
      status.Update(backend_.Axpy(1, {&one_, 1}, {&numbers_[i], 1}));
      return status;
    });
  }

  // Adds 1 to the numbers 0, 1 and 2, one a piece, with one operation more each
  // time; `seen` gets the number of a piece when it is done.
  absl::StatusOr<bool> Pieces(StepRunner& runner, std::vector<float>* seen) {
    return runner.RunPieces(
        {8}, 3,
        [&](int piece) -> absl::Status {
          ++calls_;
          absl::Status status;
          for (int i = 0; i <= piece; ++i) {
            status.Update(backend_.Scale(1, {&numbers_[piece], 1}));
          }
          status.Update(backend_.Axpy(1, {&one_, 1}, {&numbers_[piece], 1}));
          return status;
        },
        [&](int piece) -> absl::Status {
          absl::Status status = backend_.Synchronize();
          seen->push_back(numbers_[piece]);
          return status;
        });
  }

  const std::unique_ptr<kernels::Backend> cpu_ =
      kernels::CreateCpuBackend({1, 0});
  kernels::RecordingBackend backend_{cpu_.get()};
  std::vector<float> numbers_ = std::vector<float>(200);
  const float one_ = 1;
  int calls_ = 0;
  std::vector<std::string> log_;
};

TEST_F(StepRunnerTest, EagerThenCapturedThenReplayed) {
  StepRunner runner(&backend_, true, [](const std::string&) {});
  std::vector<bool> replayed;
  std::vector<int> calls;
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK_AND_ASSIGN(const bool from_graph, Step(runner, 0));
    replayed.push_back(from_graph);
    calls.push_back(calls_);
  }
  EXPECT_THAT(replayed, ElementsAre(false, true, true, true, true));
  EXPECT_THAT(calls, ElementsAre(1, 2, 2, 2, 2));
  EXPECT_EQ(numbers_[0], 5);
  EXPECT_EQ(runner.counters().eager, 1);
  EXPECT_EQ(runner.counters().captured, 1);
  EXPECT_EQ(runner.counters().replayed, 3);
}

TEST_F(StepRunnerTest, EveryShapeHasItsOwnGraph) {
  StepRunner runner(&backend_, true, [](const std::string&) {});
  for (int i = 0; i < 12; ++i) ASSERT_OK(Step(runner, i % 3).status());
  EXPECT_THAT(std::vector<float>(numbers_.begin(), numbers_.begin() + 4),
              ElementsAre(4, 4, 4, 0));
  EXPECT_EQ(calls_, 6);
}

TEST_F(StepRunnerTest, WithoutGraphsAllIsEager) {
  StepRunner off(&backend_, false, [](const std::string&) {});
  StepRunner cpu(cpu_.get(), true, [](const std::string&) {});
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const bool replayed, Step(off, 0));
    EXPECT_FALSE(replayed);
    ASSERT_OK(Step(cpu, 1).status());
  }
  EXPECT_EQ(off.counters().eager, 3);
  EXPECT_EQ(cpu.counters().eager, 3);
}

TEST_F(StepRunnerTest, KeepsTheGraphsOfTheShapesThatCameLast) {
  StepRunner runner(&backend_, true, [](const std::string&) {});
  constexpr int64_t kShapes = StepRunner::kGraphs + 2;
  for (int64_t i = 0; i < kShapes; ++i) {
    for (int j = 0; j < 3; ++j) ASSERT_OK(Step(runner, i).status());
  }
  EXPECT_EQ(runner.counters().captured, kShapes);
  // Shapes 0 and 1 lost theirs and are captured again at once.
  for (int64_t i : {kShapes - 1, int64_t{2}, int64_t{0}}) {
    ASSERT_OK(Step(runner, i).status());
  }
  EXPECT_EQ(runner.counters().captured, kShapes + 1);
  for (int64_t i = 0; i < kShapes; ++i) {
    EXPECT_EQ(numbers_[i], i == kShapes - 1 || i == 2 || i == 0 ? 4 : 3) << i;
  }
  EXPECT_FALSE(backend_.graph_outlived());
}

TEST_F(StepRunnerTest, KeepsAsManyGraphsForEachPart) {
  StepRunner runner(
      &backend_, true, [](const std::string&) {}, /*parts=*/2);
  constexpr int64_t kShapes = 2 * StepRunner::kGraphs;
  for (int j = 0; j < 4; ++j) {
    for (int64_t i = 0; i < kShapes; ++i) ASSERT_OK(Step(runner, i).status());
  }
  EXPECT_EQ(runner.counters().captured, kShapes);
  EXPECT_EQ(runner.counters().replayed, 2 * kShapes);
}

TEST_F(StepRunnerTest, ForgetsShapesOfWhichThereAreTooMany) {
  StepRunner runner(&backend_, true, [](const std::string&) {});
  ASSERT_OK(Step(runner, 0).status());
  ASSERT_OK(Step(runner, 0).status());
  for (size_t i = 1; i < StepRunner::kShapes + 10; ++i) {
    ASSERT_OK(Step(runner, static_cast<int64_t>(i)).status());
  }
  ASSERT_OK(Step(runner, 0).status());
  EXPECT_EQ(runner.counters().captured, 1);
  EXPECT_EQ(numbers_[0], 3);
  EXPECT_FALSE(backend_.graph_outlived());
}

TEST_F(StepRunnerTest, StartsAnewAfterForget) {
  {
    StepRunner runner(&backend_, true, [](const std::string&) {});
    for (int i = 0; i < 3; ++i) ASSERT_OK(Step(runner, 0).status());
    runner.Forget();
    for (int i = 0; i < 3; ++i) ASSERT_OK(Step(runner, 0).status());
    EXPECT_EQ(runner.counters().eager, 2);
    EXPECT_EQ(runner.counters().captured, 2);
    EXPECT_EQ(numbers_[0], 6);
  }
  EXPECT_FALSE(backend_.graph_outlived());
}

TEST_F(StepRunnerTest, WhatCannotBeCapturedRunsEagerlyAndIsToldOnce) {
  StepRunner runner(&backend_, true,
                    [this](const std::string& line) { log_.push_back(line); });
  backend_.FailCapturesAfter(1);
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK_AND_ASSIGN(const bool replayed, Step(runner, 0));
    EXPECT_FALSE(replayed);
  }
  EXPECT_EQ(numbers_[0], 4);
  ASSERT_THAT(log_, SizeIs(1));
  EXPECT_THAT(log_[0], HasSubstr("Axpy refused"));
  EXPECT_EQ(runner.counters().eager, 4);
  EXPECT_EQ(runner.counters().refused, 3);
  // Another shape is tried.
  backend_.FailCapturesAfter(-1);
  for (int i = 0; i < 3; ++i) ASSERT_OK(Step(runner, 1).status());
  EXPECT_EQ(runner.counters().replayed, 1);
}

TEST_F(StepRunnerTest, EveryPieceHasAGraphOfItsOwn) {
  StepRunner runner(&backend_, true, [](const std::string&) {});
  std::vector<float> seen;
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK_AND_ASSIGN(const bool from_graph, Pieces(runner, &seen));
    EXPECT_EQ(from_graph, i > 0);
  }
  EXPECT_EQ(calls_, 2 * 3) << "once eagerly, once captured";
  EXPECT_THAT(std::vector<float>(numbers_.begin(), numbers_.begin() + 4),
              ElementsAre(4, 4, 4, 0));
  // After each piece its own number is there.
  EXPECT_THAT(seen, ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4));
  EXPECT_EQ(runner.counters().captured, 1);
  EXPECT_EQ(runner.counters().replayed, 2);
}

TEST_F(StepRunnerTest, APieceThatCannotBeCapturedEndsTheGraphsOfItsStep) {
  StepRunner runner(&backend_, true,
                    [this](const std::string& line) { log_.push_back(line); });
  std::vector<float> seen;
  ASSERT_OK(Pieces(runner, &seen).status());
  backend_.FailCapturesAfter(2);  // in the second piece
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const bool from_graph, Pieces(runner, &seen));
    EXPECT_FALSE(from_graph);
  }
  EXPECT_THAT(std::vector<float>(numbers_.begin(), numbers_.begin() + 3),
              ElementsAre(3, 3, 3));
  EXPECT_THAT(seen, ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3));
  EXPECT_THAT(log_, SizeIs(1));
  EXPECT_EQ(runner.counters().refused, 2);
  EXPECT_FALSE(backend_.graph_outlived());
}

TEST_F(StepRunnerTest, AnErrorBetweenPiecesEndsTheStep) {
  StepRunner runner(&backend_, true, [](const std::string&) {});
  for (int i = 0; i < 3; ++i) {
    int pieces = 0;
    EXPECT_THAT(runner
                    .RunPieces(
                        {i / 2}, 2,
                        [&](int) {
                          ++pieces;
                          return absl::OkStatus();
                        },
                        [](int) { return absl::AbortedError("lost"); })
                    .status(),
                StatusIs(absl::StatusCode::kAborted));
    EXPECT_EQ(pieces, 1);
  }
  EXPECT_FALSE(backend_.graph_outlived());
}

TEST_F(StepRunnerTest, ReturnsTheErrorOfTheOperations) {
  StepRunner runner(&backend_, true,
                    [this](const std::string& line) { log_.push_back(line); });
  const auto wrong = [&] { return backend_.Axpy(1, {&one_, 1}, {nullptr, 2}); };
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(runner.Run({1}, wrong).status(),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace comera::trainer
