// Serves models with a shell script in place of the trainer: permissions,
// limits, restarts.

#include "worker/predict/served_models.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/predict/served_models_fixture.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;

bool NobodyLeaves() { return false; }

class ServedModelsTest : public ServedModelsFixture {
 protected:
  // Completes a good ticket, which is one model's.
  static std::string Of(const std::string& ticket, const std::string& model) {
    return ticket == "good-" ? ticket + model : ticket;
  }
  // Returns the id of the process that answers.
  absl::StatusOr<std::string> Ask(
      const std::string& model, const std::string& text = "x",
      const std::string& ticket = "good-",
      absl::Duration time = absl::Seconds(20),
      const std::function<bool()>& gone = NobodyLeaves) {
    v1::PredictRequest request;
    request.set_name("jobs/j/models/" + model);
    request.add_rows()->set_text(text);
    const auto response =
        models_->Predict(request, Of(ticket, model), absl::Now() + time, gone);
    if (!response.ok()) return response.status();
    return response->predictions(0).label();
  }

  // Returns the id of the process that generates.
  absl::StatusOr<std::string> Continue(
      const std::string& model, const std::string& prompt,
      const std::string& ticket = "good-",
      absl::Duration time = absl::Seconds(20),
      const std::function<bool()>& gone = NobodyLeaves) {
    v1::GenerateRequest request;
    request.set_name("jobs/j/models/" + model);
    request.set_prompt(prompt);
    std::string text;
    const absl::Status status =
        models_->Generate(request, Of(ticket, model), absl::Now() + time, gone,
                          [&](const v1::GenerateResponse& piece) {
                            text += piece.text();
                            return true;
                          });
    if (!status.ok()) return status;
    return text;
  }
};

TEST_F(ServedModelsTest, TheCoordinatorDecidesWhoMayAskAndIsNotAskedAlways) {
  Create();
  for (const char* ticket : {"", "bad"}) {
    EXPECT_THAT(Ask("a", "x", ticket),
                StatusIs(absl::StatusCode::kUnauthenticated));
  }
  ASSERT_OK_AND_ASSIGN(const std::string first, Ask("a"));
  const int asked = store_.asked;
  ASSERT_OK_AND_ASSIGN(const std::string second, Ask("a"));
  EXPECT_EQ(first, second);
  EXPECT_EQ(store_.asked, asked);
  // A permission holds only for the ticket that has it, and for its model.
  EXPECT_THAT(Ask("a", "x", "bad"),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(Ask("b", "x", "good-a"),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(ServedModelsTest, ANewVersionReplacesTheOld) {
  options_.allowed_for = absl::ZeroDuration();
  Create();
  ASSERT_OK_AND_ASSIGN(const std::string first, Ask("a"));
  ASSERT_OK_AND_ASSIGN(const std::string same, Ask("a"));
  EXPECT_EQ(first, same);
  store_.contents = "two";
  ASSERT_OK_AND_ASSIGN(const std::string second, Ask("a"));
  EXPECT_NE(first, second);
}

TEST_F(ServedModelsTest, DamagedFilesAndBadNamesAreRefused) {
  store_.damaged = true;
  Create();
  EXPECT_THAT(Ask("a"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(Ask("../a"), StatusIs(absl::StatusCode::kInvalidArgument));
  store_.damaged = false;
  options_.max_file_bytes = 2;
  Create();
  EXPECT_THAT(Ask("a"), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(ServedModelsTest, WhatDiesIsStartedAgain) {
  Create();
  ASSERT_OK_AND_ASSIGN(const std::string first, Ask("a"));
  EXPECT_THAT(Ask("a", "die"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("no more")));
  ASSERT_OK_AND_ASSIGN(const std::string second, Ask("a"));
  EXPECT_NE(first, second);
  // A refusal does not restart the process.
  EXPECT_THAT(Ask("a", "refuse"), StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(const std::string third, Ask("a"));
  EXPECT_EQ(second, third);
}

TEST_F(ServedModelsTest, TextsComeFromTheSameProcess) {
  Create();
  ASSERT_OK_AND_ASSIGN(const std::string first, Ask("a"));
  ASSERT_OK_AND_ASSIGN(const std::string second, Continue("a", "prompt"));
  EXPECT_EQ(first, second);
  for (const char* ticket : {"", "bad"}) {
    EXPECT_THAT(Continue("a", "prompt", ticket),
                StatusIs(absl::StatusCode::kUnauthenticated));
  }
  EXPECT_THAT(Continue("../a", "prompt"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Continue("a", "refuse"),
              StatusIs(absl::StatusCode::kInvalidArgument, "refused"));
}

// A text that has begun may go on otherwise in another process.
TEST_F(ServedModelsTest, OnlyTextsThatHaveNotBegunAreAskedForAgain) {
  Create();
  ASSERT_OK_AND_ASSIGN(const std::string first, Continue("a", "prompt"));
  EXPECT_THAT(
      Continue("a", "begin"),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no end")));
  ASSERT_OK_AND_ASSIGN(const std::string begun,
                       ReadFile(options_.trainer + ".begun"));
  EXPECT_EQ(begun, "\n");
  ASSERT_OK_AND_ASSIGN(const std::string second, Continue("a", "prompt"));
  EXPECT_NE(first, second);
  EXPECT_THAT(
      Continue("a", "die"),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no more")));
}

TEST_F(ServedModelsTest, PredictRequestsGenerateNothing) {
  Create();
  v1::PredictRequest request;
  request.set_name("jobs/j/models/a");
  request.mutable_generate();
  EXPECT_THAT(
      models_->Predict(request, "good-a", absl::Now() + absl::Seconds(20),
                       NobodyLeaves),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generate")));
}

TEST_F(ServedModelsTest, TheListIsTheCoordinators) {
  Create();
  ASSERT_OK(Ask("b"));
  const absl::Time soon = absl::Now() + absl::Seconds(20);
  EXPECT_THAT(models_->List("", soon, NobodyLeaves),
              StatusIs(absl::StatusCode::kUnauthenticated));
  store_.open = true;
  ASSERT_OK_AND_ASSIGN(const auto models,
                       models_->List("", soon, NobodyLeaves));
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].name, "jobs/j/models/a");
  EXPECT_FALSE(models[0].loaded);
  EXPECT_EQ(models[0].user, "alice");
  EXPECT_EQ(models[0].created, absl::FromUnixSeconds(1700000000));
  EXPECT_EQ(models[1].name, "jobs/j/models/b");
  EXPECT_TRUE(models[1].loaded);
  EXPECT_THAT(models_->List("bad", soon, NobodyLeaves),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(ServedModelsTest, ATicketListsItsModelAlone) {
  Create();
  const absl::Time soon = absl::Now() + absl::Seconds(20);
  ASSERT_OK_AND_ASSIGN(const auto models,
                       models_->List("good-b", soon, NobodyLeaves));
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].name, "jobs/j/models/b");
}

TEST_F(ServedModelsTest, WhoGivesUpEarlyCostsNobodyTheModel) {
  Create();
  ASSERT_OK_AND_ASSIGN(const std::string first, Ask("a"));
  EXPECT_THAT(Ask("a", "late", "good-", absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  std::ofstream(options_.trainer + ".wake");
  ASSERT_OK_AND_ASSIGN(const std::string second, Ask("a"));
  EXPECT_EQ(first, second);
}

TEST_F(ServedModelsTest, WhatDoesNotAnswerIsEnded) {
  options_.most_late = absl::Milliseconds(1);
  options_.look_interval = absl::Milliseconds(5);
  Create();
  EXPECT_THAT(Ask("a", "sleep", "good-", absl::Milliseconds(500)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_OK(Ask("a"));
  EXPECT_THAT(Continue("a", "sleep", "good-", absl::Milliseconds(500)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_OK(Continue("a", "prompt"));
}

TEST_F(ServedModelsTest, WhoOnlyWaitsForATurnEndsNothing) {
  options_.most_late = absl::ZeroDuration();
  options_.look_interval = absl::Milliseconds(5);
  Create();
  ASSERT_OK_AND_ASSIGN(const std::string first, Ask("a"));
  std::thread busy([&] {
    ASSERT_OK_AND_ASSIGN(const std::string late, Ask("a", "late"));
    EXPECT_EQ(late, first);
  });
  while (!std::filesystem::exists(options_.trainer + ".computes")) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_THAT(Ask("a", "x", "good-", absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  std::ofstream(options_.trainer + ".wake");
  busy.join();
  ASSERT_OK_AND_ASSIGN(const std::string last, Ask("a"));
  EXPECT_EQ(last, first);
}

// A prediction may take as long as its deadline says, whoever leaves.
TEST_F(ServedModelsTest, WhoLeavesALongPredictionEndsNothing) {
  options_.most_late = absl::ZeroDuration();
  options_.look_interval = absl::Milliseconds(5);
  Create();
  ASSERT_OK_AND_ASSIGN(const std::string first, Ask("a"));
  EXPECT_THAT(Ask("a", "late", "good-", absl::Seconds(60),
                  [&] { return Has("computes"); }),
              StatusIs(absl::StatusCode::kCancelled));
  // Waits for its turn while the process is looked at several times.
  EXPECT_THAT(Ask("a", "x", "good-", absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  Make("wake");
  ASSERT_OK_AND_ASSIGN(const std::string last, Ask("a"));
  EXPECT_EQ(last, first);
}

TEST_F(ServedModelsTest, OneModelMakesRoomForAnotherUnlessItIsBusy) {
  options_.most_models = 1;
  Create();
  ASSERT_OK_AND_ASSIGN(const std::string first, Ask("a"));
  ASSERT_OK(Ask("b"));
  ASSERT_OK_AND_ASSIGN(const std::string again, Ask("a"));
  EXPECT_NE(first, again);
  // Only models that are ready have a folder.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(options_.folder),
                          std::filesystem::directory_iterator()),
            1);
  std::thread busy([&] {
    EXPECT_THAT(Ask("a", "sleep"), StatusIs(absl::StatusCode::kUnavailable));
  });
  while (!std::filesystem::exists(options_.trainer + ".asleep")) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_THAT(Ask("b"), StatusIs(absl::StatusCode::kResourceExhausted));
  models_->Stop();
  busy.join();
  EXPECT_THAT(Ask("a"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(ServedModelsTest, WhoLeavesWhileAModelLoadsIsNotWaitedFor) {
  options_.most_calls = 1;
  Create();
  Make("hold");
  const auto leaves = [&] { return Has("started"); };
  const absl::Duration time = absl::Seconds(60);
  EXPECT_THAT(
      models_->Load("jobs/j/models/a", "good-a", absl::Now() + time, leaves),
      StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Ask("a", "x", "good-", time, leaves),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Continue("a", "prompt", "good-", time, leaves),
              StatusIs(absl::StatusCode::kCancelled));
  // Others have the place, and what has begun to load goes on.
  std::filesystem::remove(Mark("hold"));
  EXPECT_OK(Ask("a"));
  ASSERT_OK_AND_ASSIGN(const std::string started, ReadFile(Mark("started")));
  EXPECT_EQ(started, "\n");
}

TEST_F(ServedModelsTest, WhoLeavesWhileTheCoordinatorDecidesIsNotWaitedFor) {
  options_.most_calls = 1;
  Create();
  store_.holds_answers = true;
  EXPECT_THAT(Ask("a", "x", "good-", absl::Seconds(60),
                  [&] { return store_.asked > 0; }),
              StatusIs(absl::StatusCode::kCancelled));
  store_.holds_answers = false;
  EXPECT_OK(Ask("a"));
}

TEST_F(ServedModelsTest, WhatNobodyWaitsForMakesRoom) {
  options_.most_models = 1;
  store_.holds_files = true;
  Create();
  const auto leaves = [&] { return store_.held > 0; };
  EXPECT_THAT(Ask("a", "x", "good-", absl::Seconds(60), leaves),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_OK(Ask("b"));
  // A process that does not begin makes room as well.
  store_.holds_files = false;
  std::filesystem::remove(Mark("started"));
  Make("hold");
  EXPECT_THAT(
      Ask("a", "x", "good-", absl::Seconds(60), [&] { return Has("started"); }),
      StatusIs(absl::StatusCode::kCancelled));
  std::filesystem::remove(Mark("hold"));
  EXPECT_OK(Ask("c"));
}

TEST_F(ServedModelsTest, WhatLoadsEndsWithTheWorker) {
  Create();
  Make("hold");
  EXPECT_THAT(Ask("a", "x", "good-", absl::Milliseconds(500)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  models_.reset();
}

TEST_F(ServedModelsTest, CallersShareALoad) {
  Create();
  Make("hold");
  std::thread first([&] { EXPECT_OK(Ask("a")); });
  while (!Has("started")) absl::SleepFor(absl::Milliseconds(1));
  // Whoever asks whether a caller has left waits already.
  EXPECT_OK(Ask("a", "x", "good-", absl::Seconds(20), [&] {
    std::filesystem::remove(Mark("hold"));
    return false;
  }));
  first.join();
  ASSERT_OK_AND_ASSIGN(const std::string started, ReadFile(Mark("started")));
  EXPECT_EQ(started, "\n");
}

TEST_F(ServedModelsTest, AnothersFailureIsNotTheCallers) {
  options_.allowed_for = absl::ZeroDuration();
  store_.holds_files = true;
  store_.damaged = true;
  Create();
  std::thread first(
      [&] { EXPECT_THAT(Ask("a"), StatusIs(absl::StatusCode::kDataLoss)); });
  while (store_.held == 0) absl::SleepFor(absl::Milliseconds(1));
  store_.damaged = false;
  EXPECT_OK(Ask("a", "x", "good-", absl::Seconds(20), [&] {
    if (store_.asked == 2) store_.holds_files = false;
    return false;
  }));
  first.join();
}

TEST_F(ServedModelsTest, RequestsAreBoundedInBytes) {
  options_.most_request_bytes = 10000;
  Create();
  ASSERT_OK(Ask("a"));
  const std::string large(6000, 'x');
  std::thread busy([&] { EXPECT_OK(Ask("a", "late" + large)); });
  while (!Has("computes")) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_THAT(Ask("a", large), StatusIs(absl::StatusCode::kResourceExhausted,
                                        HasSubstr("bytes")));
  EXPECT_THAT(Continue("a", "prompt" + large),
              StatusIs(absl::StatusCode::kResourceExhausted));
  // There is room for small ones.
  EXPECT_OK(models_->Load("jobs/j/models/a", "good-a",
                          absl::Now() + absl::Seconds(20), NobodyLeaves));
  Make("wake");
  busy.join();
  EXPECT_OK(Ask("a", large));
  EXPECT_THAT(Ask("a", large + large),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("10000")));
}

}  // namespace
}  // namespace comera::worker
