// A worker's served models, with a coordinator that decides who may see what,
// and a shell script in place of the trainer.
#ifndef COMERA_TESTS_WORKER_PREDICT_SERVED_MODELS_FIXTURE_H_
#define COMERA_TESTS_WORKER_PREDICT_SERVED_MODELS_FIXTURE_H_

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "comera/v1/model_service.grpc.pb.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "worker/predict/served_models.h"

namespace comera::worker {

// A coordinator: the ticket `good-{id}` is good for `jobs/j/models/{id}`, also
// with a ticket's usual prefix. Callers without a ticket may see models only
// while it is open.
class FakeStore : public v1::ModelService::Service,
                  public v1::TrainingService::Service,
                  public v1::WorkerService::Service {
 public:
  static grpc::Status Refusal() {
    return {grpc::StatusCode::UNAUTHENTICATED, "who are you?"};
  }
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*,
                        v1::Model*) override {
    return Refusal();
  }
  grpc::Status RedeemTicket(grpc::ServerContext* context,
                            const v1::RedeemTicketRequest* request,
                            v1::RedeemTicketResponse* response) override {
    ++asked;
    while (holds_answers && !context->IsCancelled()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    absl::string_view id = request->ticket();
    absl::ConsumePrefix(&id, kTicketPrefix);
    if (context->client_metadata().count("authorization") > 0 ||
        !absl::ConsumePrefix(&id, "good-")) {
      return Refusal();
    }
    FillModel(std::string(id), response->mutable_model());
    response->set_download_ticket("for the files");
    response->mutable_expire_time()->set_seconds(
        absl::ToUnixSeconds(absl::Now()) + 60);
    return grpc::Status::OK;
  }
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse* response) override {
    if (!open) return Refusal();
    for (const char* id : {"a", "early-stage", "b"}) {
      FillModel(id, response->add_models());
    }
    return grpc::Status::OK;
  }
  grpc::Status DownloadArtifact(
      grpc::ServerContext* context, const v1::DownloadArtifactRequest* request,
      grpc::ServerWriter<v1::DownloadArtifactResponse>* writer) override {
    if (request->ticket() != "for the files") return Refusal();
    if (request->name() == "jobs/j/models/a" && holds_files) {
      ++held;
      while (holds_files && !context->IsCancelled()) {
        absl::SleepFor(absl::Milliseconds(1));
      }
    }
    v1::DownloadArtifactResponse part;
    part.set_data(contents);
    writer->Write(part);
    return grpc::Status::OK;
  }
  void FillModel(const std::string& id, v1::Model* model) {
    model->set_name("jobs/j/models/" + id);
    model->set_user("alice");
    v1::Artifact& artifact = *model->mutable_artifact();
    artifact.set_name(model->name());
    artifact.mutable_create_time()->set_seconds(1700000000);
    v1::ArtifactFile* file = artifact.add_files();
    file->set_path("config.json");
    file->set_size_bytes(static_cast<int64_t>(contents.size()));
    file->set_sha256(Sha256Hex(damaged ? "other" : contents));
  }

  std::atomic<bool> open{false};
  std::atomic<int> asked{0};
  std::atomic<bool> damaged{false};
  // Whether RedeemTicket answers only callers that do not wait any more.
  std::atomic<bool> holds_answers{false};
  // Whether the files of model "a" do not come, and how often they were asked
  // for then.
  std::atomic<bool> holds_files{false};
  std::atomic<int> held{0};
  std::string contents = "one";
};

// Stands in for comera-trainer: answers with its process id, and dies or sleeps
// when asked to. While there is a file "hold", it does not begin.
inline constexpr char kTrainer[] = R"(#!/bin/sh
echo >>"$0.started"
while [ -e "$0.hold" ]; do sleep 0.01; done
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
    *flood*)
      piece=$(head -c 262144 /dev/zero | tr '\0' x)
      for i in 1 2 3 4 5 6 7 8; do
        echo "{$number, \"generated\": {\"text\": \"$piece\"}}"
      done
      : >"$0.flooded" ;;
    *large*)
      piece=$(head -c 1048576 /dev/zero | tr '\0' x)
      echo "{$number, \"predictions\": [{\"label\": \"$piece\"}]}" ;;
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

class ServedModelsFixture : public ::testing::Test {
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
    builder.RegisterService(static_cast<v1::WorkerService::Service*>(&store_));
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
  }

  void Create() {
    auto models = ServedModels::Create(options_, {channel_, channel_});
    ASSERT_OK(models);
    models_ = *std::move(models);
  }

  // The path of a file that the script reads or makes.
  std::string Mark(const std::string& name) const {
    return options_.trainer + "." + name;
  }
  bool Has(const std::string& name) const {
    return std::filesystem::exists(Mark(name));
  }
  void Make(const std::string& name) const { std::ofstream(Mark(name)); }

  std::string folder_;
  ServedModels::Options options_;
  FakeStore store_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ServedModels> models_;
};

}  // namespace comera::worker

#endif  // COMERA_TESTS_WORKER_PREDICT_SERVED_MODELS_FIXTURE_H_
