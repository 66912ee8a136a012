// Serves models with a shell script in place of the trainer: permissions,
// limits, restarts.

#include "worker/predict/served_models.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "comera/v1/model_service.grpc.pb.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;

// A coordinator's model service: callers with the token `good` may see all
// models.
class FakeStore : public v1::ModelService::Service,
                  public v1::TrainingService::Service {
 public:
  static grpc::Status Check(const grpc::ServerContext& context) {
    const auto& metadata = context.client_metadata();
    const auto found = metadata.find("authorization");
    if (found != metadata.end() && found->second == "Bearer good") {
      return grpc::Status::OK;
    }
    return {grpc::StatusCode::UNAUTHENTICATED, "who are you?"};
  }
  grpc::Status GetModel(grpc::ServerContext* context,
                        const v1::GetModelRequest* request,
                        v1::Model* model) override {
    ++asked;
    if (const grpc::Status status = Check(*context); !status.ok()) {
      return status;
    }
    v1::Artifact& artifact = *model->mutable_artifact();
    artifact.set_name(request->name());
    v1::ArtifactFile* file = artifact.add_files();
    file->set_path("config.json");
    file->set_size_bytes(static_cast<int64_t>(contents.size()));
    file->set_sha256(Sha256Hex(damaged ? "other" : contents));
    return grpc::Status::OK;
  }
  grpc::Status ListModels(grpc::ServerContext* context,
                          const v1::ListModelsRequest*,
                          v1::ListModelsResponse* response) override {
    if (const grpc::Status status = Check(*context); !status.ok()) {
      return status;
    }
    for (const char* id : {"a", "early-stage", "b"}) {
      v1::Model* model = response->add_models();
      model->set_name(std::string("jobs/j/models/") + id);
      model->set_user("alice");
      model->mutable_artifact()->mutable_create_time()->set_seconds(1700000000);
    }
    return grpc::Status::OK;
  }
  grpc::Status DownloadArtifact(
      grpc::ServerContext* context, const v1::DownloadArtifactRequest*,
      grpc::ServerWriter<v1::DownloadArtifactResponse>* writer) override {
    if (const grpc::Status status = Check(*context); !status.ok()) {
      return status;
    }
    v1::DownloadArtifactResponse part;
    part.set_data(contents);
    writer->Write(part);
    return grpc::Status::OK;
  }

  std::atomic<int> asked{0};
  std::atomic<bool> damaged{false};
  std::string contents = "one";
};

// Stands in for comera-trainer: answers with its process id, and dies or sleeps
// when asked to.
constexpr char kTrainer[] = R"(#!/bin/sh
echo '{"family": "causal_lm", "maxGenerations": 2}'
while read -r line; do
  number=${line#*\"number\":\"}
  number="\"number\": ${number%%\"*}"
  case $line in
    *die*) echo 'comera-trainer: no more' >&2; exit 1 ;;
    *sleep*) : >"$0.asleep"; exec sleep 100 ;;
    *late*)
      : >"$0.computes"
      until [ -e "$0.wake" ]; do :; done
      echo "{$number, \"predictions\": [{\"label\": \"$$\"}]}" ;;
    *refuse*) echo "{$number, \"error\": \"refused\"}" ;;
    *begin*)
      echo >>"$0.begun"
      echo "{$number, \"generated\": {\"text\": \"$$\"}}"
      echo 'comera-trainer: no end' >&2; exit 1 ;;
    *prompt*)
      echo "{$number, \"generated\": {\"text\": \"$$\", \"finish\": \"STOP\"}}"
      ;;
    *cancel*)
      number=${line#*\"cancel\":\"}
      echo "{\"number\": ${number%%\"*}, \"error\": \"cancelled\"}" ;;
    *) echo "{$number, \"predictions\": [{\"label\": \"$$\"}]}" ;;
  esac
done
)";

class ServedModelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    options_.trainer = folder_ + "/trainer";
    std::ofstream(options_.trainer) << kTrainer;
    std::filesystem::permissions(options_.trainer,
                                 std::filesystem::perms::owner_all);
    options_.folder = folder_ + "/models";
    options_.max_memory_bytes = 0;
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(static_cast<v1::ModelService::Service*>(&store_));
    builder.RegisterService(
        static_cast<v1::TrainingService::Service*>(&store_));
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
  }

  void Create() {
    auto models = ServedModels::Create(options_, channel_);
    ASSERT_OK(models);
    models_ = *std::move(models);
  }

  // Returns the id of the process that answers.
  absl::StatusOr<std::string> Ask(const std::string& model,
                                  const std::string& text = "x",
                                  const std::string& token = "good",
                                  absl::Duration time = absl::Seconds(20)) {
    v1::PredictRequest request;
    request.set_name("jobs/j/models/" + model);
    request.add_rows()->set_text(text);
    const auto response = models_->Predict(request, token, absl::Now() + time);
    if (!response.ok()) return response.status();
    return response->predictions(0).label();
  }

  // Returns the id of the process that generates.
  absl::StatusOr<std::string> Continue(
      const std::string& model, const std::string& prompt,
      const std::string& token = "good",
      absl::Duration time = absl::Seconds(20)) {
    v1::GenerateRequest request;
    request.set_name("jobs/j/models/" + model);
    request.set_prompt(prompt);
    std::string text;
    const absl::Status status = models_->Generate(
        request, token, absl::Now() + time, [] { return false; },
        [&](const v1::GenerateResponse& piece) {
          text += piece.text();
          return true;
        });
    if (!status.ok()) return status;
    return text;
  }

  std::string folder_;
  ServedModels::Options options_;
  FakeStore store_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ServedModels> models_;
};

TEST_F(ServedModelsTest, TheCoordinatorDecidesWhoMayAskAndIsNotAskedAlways) {
  Create();
  for (const char* token : {"", "bad"}) {
    EXPECT_THAT(Ask("a", "x", token),
                StatusIs(absl::StatusCode::kUnauthenticated));
  }
  ASSERT_OK_AND_ASSIGN(const std::string first, Ask("a"));
  const int asked = store_.asked;
  ASSERT_OK_AND_ASSIGN(const std::string second, Ask("a"));
  EXPECT_EQ(first, second);
  EXPECT_EQ(store_.asked, asked);
  // A permission holds only for the token that has it.
  EXPECT_THAT(Ask("a", "x", "bad"),
              StatusIs(absl::StatusCode::kUnauthenticated));
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
  for (const char* token : {"", "bad"}) {
    EXPECT_THAT(Continue("a", "prompt", token),
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
      models_->Predict(request, "good", absl::Now() + absl::Seconds(20)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generate")));
}

TEST_F(ServedModelsTest, TheListIsTheCoordinators) {
  Create();
  ASSERT_OK(Ask("b"));
  const absl::Time soon = absl::Now() + absl::Seconds(20);
  ASSERT_OK_AND_ASSIGN(const auto models, models_->List("good", soon));
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].name, "jobs/j/models/a");
  EXPECT_FALSE(models[0].loaded);
  EXPECT_EQ(models[0].user, "alice");
  EXPECT_EQ(models[0].created, absl::FromUnixSeconds(1700000000));
  EXPECT_EQ(models[1].name, "jobs/j/models/b");
  EXPECT_TRUE(models[1].loaded);
  EXPECT_THAT(models_->List("bad", soon),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(ServedModelsTest, WhoGivesUpEarlyCostsNobodyTheModel) {
  Create();
  ASSERT_OK_AND_ASSIGN(const std::string first, Ask("a"));
  EXPECT_THAT(Ask("a", "late", "good", absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  std::ofstream(options_.trainer + ".wake");
  ASSERT_OK_AND_ASSIGN(const std::string second, Ask("a"));
  EXPECT_EQ(first, second);
}

TEST_F(ServedModelsTest, WhatDoesNotAnswerIsEnded) {
  options_.most_late = absl::Milliseconds(1);
  options_.look_interval = absl::Milliseconds(5);
  Create();
  EXPECT_THAT(Ask("a", "sleep", "good", absl::Milliseconds(500)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_OK(Ask("a"));
  EXPECT_THAT(Continue("a", "sleep", "good", absl::Milliseconds(500)),
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
  EXPECT_THAT(Ask("a", "x", "good", absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  std::ofstream(options_.trainer + ".wake");
  busy.join();
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

}  // namespace
}  // namespace comera::worker
