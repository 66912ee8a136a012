// Models and checkpoints of all jobs over real gRPC.
#include <filesystem>
#include <fstream>

#include "comera/v1/model_service.grpc.pb.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "server/api/model_listing.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kConfig[] = R"({
  "format": "comera", "version": 1, "size_bytes": 4004,
  "model": {"factorisation": {"encoder.0.ffn.up": {"ranks": [7, 9]},
                              "encoder.0.ffn.down": {"ranks": []}}},
  "training": {"step": 300, "validation_accuracy": 0.5, "note": "x"}})";

class ModelServiceTest : public ServerFixture {
 protected:
  ModelServiceTest() { models_ = v1::ModelService::NewStub(channel_); }
  ~ModelServiceTest() override { models_.reset(); }

  void Restart() {
    models_.reset();
    RestartServer();
    models_ = v1::ModelService::NewStub(channel_);
  }

  // A job that ended with models of two targets and its own.
  std::string FinishedJob(const std::string& label) {
    v1::JobSpec spec = TestSpec(1);
    (*spec.mutable_labels())["team"] = label;
    const std::string name = Create(spec).name();
    w1_.ranks.clear();
    RunAll(w1_);
    v1::MemberStatus& rank = w1_.ranks[0];
    v1::TrainingResult& result = *rank.mutable_result();
    result.set_outcome(v1::TARGET_MET);
    const v1::ArtifactFile config = Describe("config.json", kConfig);
    const auto model = [&](const std::string& id, double loss, int64_t size) {
      v1::Artifact artifact;
      artifact.set_name(name + "/models/" + id);
      artifact.set_validation_loss(loss);
      artifact.set_size_parameters(size);
      *artifact.add_files() = config;
      EXPECT_TRUE(Upload(artifact.name(), 1, config, kConfig).ok());
      // Its header has 100 bytes.
      const std::string weights(static_cast<size_t>(4 * size + 100), 'w');
      *artifact.add_files() = Describe("model.safetensors", weights);
      EXPECT_TRUE(Upload(artifact.name(), 1, artifact.files(1), weights).ok());
      return artifact;
    };
    *rank.add_target_models() = model("target-1", 0.5, 2000);
    *rank.add_target_models() = model("target-2", 0.6, 1000);
    *rank.mutable_model() = model("final", 0.7, 1001);
    rank.set_phase(v1::MemberStatus::EXITED);
    Sync(w1_);
    Sync(w1_);
    EXPECT_EQ(Get(name).state(), v1::SUCCEEDED);
    return name;
  }

  grpc::Status List(const v1::ListModelsRequest& request,
                    v1::ListModelsResponse* response) {
    return models_->ListModels(Context().get(), request, response);
  }
  grpc::Status GetModel(const std::string& name, v1::Model* model) {
    v1::GetModelRequest request;
    request.set_name(name);
    return models_->GetModel(Context().get(), request, model);
  }
  grpc::Status Delete(const std::string& name) {
    v1::DeleteModelRequest request;
    request.set_name(name);
    v1::DeleteModelResponse response;
    return models_->DeleteModel(Context().get(), request, &response);
  }
  grpc::Status DeleteJob(const std::string& name) {
    v1::DeleteJobRequest request;
    request.set_name(name);
    v1::DeleteJobResponse response;
    return training_->DeleteJob(Context().get(), request, &response);
  }
  StatusCode Pin(const std::string& name) {
    v1::PinModelRequest request;
    request.set_name(name);
    v1::Model model;
    return models_->PinModel(Context().get(), request, &model).error_code();
  }
  StatusCode SetAlias(const std::string& alias, const std::string& model) {
    v1::SetModelAliasRequest request;
    request.set_alias(alias);
    request.set_model(model);
    v1::Model answer;
    return models_->SetModelAlias(Context().get(), request, &answer)
        .error_code();
  }
  // The model that it stands for; empty: none.
  std::string Alias(const std::string& alias) {
    v1::GetModelAliasRequest request;
    request.set_name(alias);
    v1::Model model;
    const grpc::Status status =
        models_->GetModelAlias(Context().get(), request, &model);
    EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::NOT_FOUND);
    return model.name();
  }
  StatusCode EndAlias(const std::string& alias) {
    v1::DeleteModelAliasRequest request;
    request.set_name(alias);
    v1::DeleteModelAliasResponse response;
    return models_->DeleteModelAlias(Context().get(), request, &response)
        .error_code();
  }
  static std::vector<std::string> Names(const v1::ListModelsResponse& page) {
    std::vector<std::string> names;
    for (const v1::Model& model : page.models()) names.push_back(model.name());
    return names;
  }

  std::unique_ptr<v1::ModelService::Stub> models_;
  Worker w1_{"w1"};
};

TEST_F(ModelServiceTest, ListsTheModelsOfAllJobsInPages) {
  const std::string first = FinishedJob("a"), second = FinishedJob("b");
  v1::ListModelsRequest request;
  v1::ListModelsResponse page;
  request.set_page_size(2);
  std::vector<std::string> names;
  do {
    ASSERT_TRUE(List(request, &page).ok());
    for (const std::string& name : Names(page)) names.push_back(name);
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(
      names,
      ElementsAre(second + "/models/target-1", second + "/models/target-2",
                  second + "/models/final", first + "/models/target-1",
                  first + "/models/target-2", first + "/models/final"));
  v1::ListModelsRequest filtered;
  (*filtered.mutable_labels())["team"] = "a";
  ASSERT_TRUE(List(filtered, &page).ok());
  ASSERT_EQ(page.models_size(), 3);
  EXPECT_EQ(page.models(0).target_index(), 0);
  EXPECT_EQ(page.models(2).target_index(), -1);
  EXPECT_TRUE(page.models(0).pareto_optimal());
  EXPECT_TRUE(page.models(1).pareto_optimal());
  EXPECT_FALSE(page.models(2).pareto_optimal());  // beaten by target-2
  EXPECT_EQ(page.models(1).size_bytes(), 4100);
  filtered.clear_labels();
  filtered.set_job(second);
  ASSERT_TRUE(List(filtered, &page).ok());
  EXPECT_EQ(page.models_size(), 3);
  // Hostile requests.
  const auto bad = StatusCode::INVALID_ARGUMENT;
  filtered.set_job("jobs/../x");
  EXPECT_EQ(List(filtered, &page).error_code(), bad);
  request.set_page_token("garbage");
  EXPECT_EQ(List(request, &page).error_code(), bad);
  request.clear_page_token();
  request.set_page_size(1001);
  EXPECT_EQ(List(request, &page).error_code(), bad);
  request.set_page_size(1);
  ASSERT_TRUE(List(request, &page).ok());
  request.set_page_token(page.next_page_token());
  (*request.mutable_labels())["team"] = "a";
  EXPECT_EQ(List(request, &page).error_code(),
            bad);  // the token belongs to another list
}

TEST_F(ModelServiceTest, DescribesAModelByItsFiles) {
  const std::string job = FinishedJob("a");
  v1::Model model;
  ASSERT_TRUE(GetModel(job + "/models/target-1", &model).ok());
  EXPECT_EQ(model.step(), 300);
  EXPECT_EQ(model.size_bytes(), 4004);
  ASSERT_EQ(model.ranks_size(), 1);  // the other layer is dense
  EXPECT_EQ(model.ranks(0).layer(), "encoder.0.ffn.up");
  EXPECT_THAT(model.ranks(0).current(), ElementsAre(7, 9));
  EXPECT_EQ(model.figures().at("validation_accuracy"), 0.5);
  EXPECT_EQ(GetModel(job + "/models/none", &model).error_code(),
            StatusCode::NOT_FOUND);
  EXPECT_EQ(GetModel("jobs/none/models/final", &model).error_code(),
            StatusCode::NOT_FOUND);
  EXPECT_EQ(GetModel("jobs/../models/final", &model).error_code(),
            StatusCode::INVALID_ARGUMENT);
  std::ofstream(options_.data_dir + "/artifacts/" + job.substr(5) +
                "/target-1/config.json")
      << "{}";
  EXPECT_EQ(GetModel(job + "/models/target-1", &model).error_code(),
            StatusCode::DATA_LOSS);
}

TEST_F(ModelServiceTest, DeletesAModelWithItsFiles) {
  const std::string job = FinishedJob("a");
  const std::string name = job + "/models/target-1";
  ASSERT_TRUE(Delete(name).ok());
  EXPECT_FALSE(std::filesystem::exists(options_.data_dir + "/artifacts/" +
                                       job.substr(5) + "/target-1"));
  EXPECT_EQ(Delete(name).error_code(), StatusCode::NOT_FOUND);
  std::string data;
  EXPECT_EQ(Download(name, "config.json", 0, &data).error_code(),
            StatusCode::NOT_FOUND);
  Restart();
  EXPECT_EQ(Get(job).models_size(), 2);
  EXPECT_EQ(Delete("jobs/x").error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Delete("jobs/none/models/final").error_code(),
            StatusCode::NOT_FOUND);
}

TEST_F(ModelServiceTest, NothingDeletesAPinnedModel) {
  const std::string job = FinishedJob("a");
  const std::string name = job + "/models/target-1";
  ASSERT_EQ(Pin(name), StatusCode::OK);
  ASSERT_EQ(Pin(name), StatusCode::OK);
  EXPECT_EQ(Delete(name).error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(DeleteJob(job).error_code(), StatusCode::FAILED_PRECONDITION);
  Restart();
  EXPECT_TRUE(Get(job).models(0).pinned());
  EXPECT_EQ(Delete(name).error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(std::filesystem::exists(options_.data_dir + "/artifacts/" +
                                      job.substr(5) + "/target-1"));
  // The others are as before.
  EXPECT_EQ(Delete(job + "/models/target-2").error_code(), StatusCode::OK);
  v1::UnpinModelRequest unpin;
  unpin.set_name(name);
  v1::Model model;
  ASSERT_TRUE(models_->UnpinModel(Context().get(), unpin, &model).ok());
  EXPECT_EQ(model.name(), name);
  EXPECT_FALSE(model.artifact().pinned());
  EXPECT_EQ(Delete(name).error_code(), StatusCode::OK);
  EXPECT_EQ(Pin(name), StatusCode::NOT_FOUND);
  EXPECT_EQ(Pin("jobs/x"), StatusCode::INVALID_ARGUMENT);
}

TEST_F(ModelServiceTest, AnAliasStandsForOneModelAndKeepsIt) {
  const std::string first = FinishedJob("a") + "/models/final";
  const std::string second = FinishedJob("b") + "/models/final";
  const std::string alias = "models/intents@production";
  EXPECT_EQ(Alias(alias), "");
  ASSERT_EQ(SetAlias(alias, first), StatusCode::OK);
  ASSERT_EQ(SetAlias("models/intents@old", first), StatusCode::OK);
  EXPECT_EQ(Alias(alias), first);
  EXPECT_EQ(Delete(first).error_code(), StatusCode::FAILED_PRECONDITION);
  // It moves, and with it what it protects.
  ASSERT_EQ(SetAlias(alias, second), StatusCode::OK);
  Restart();
  EXPECT_EQ(Alias(alias), second);
  EXPECT_EQ(Alias("models/intents@old"), first);
  EXPECT_EQ(Delete(second).error_code(), StatusCode::FAILED_PRECONDITION);
  ASSERT_EQ(EndAlias("models/intents@old"), StatusCode::OK);
  EXPECT_EQ(EndAlias("models/intents@old"), StatusCode::NOT_FOUND);
  EXPECT_EQ(Delete(first).error_code(), StatusCode::OK);
  EXPECT_EQ(SetAlias(alias, first), StatusCode::NOT_FOUND);
  EXPECT_EQ(Alias(alias), second);
  for (const char* bad : {"models/a", "models/a@", "models/@b", "models/A@b",
                          "models/a@b@c", "models/../x@b", "a@b"}) {
    EXPECT_EQ(SetAlias(bad, second), StatusCode::INVALID_ARGUMENT) << bad;
  }
  v1::ListModelsRequest request;
  v1::ListModelsResponse page;
  request.set_kept(true);
  ASSERT_TRUE(List(request, &page).ok());
  EXPECT_THAT(Names(page), ElementsAre(second));
  request.clear_kept();
  request.set_text("@Production");
  ASSERT_TRUE(List(request, &page).ok());
  EXPECT_THAT(Names(page), ElementsAre(second));
  request.set_text(std::string(257, 'x'));
  EXPECT_EQ(List(request, &page).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(ModelServiceTest, AModelHasAtMostSixteenAliases) {
  const std::string model = FinishedJob("a") + "/models/final";
  for (int i = 0; i < 16; ++i) {
    ASSERT_EQ(SetAlias("models/m@a" + std::to_string(i), model),
              StatusCode::OK);
  }
  EXPECT_EQ(SetAlias("models/m@a0", model), StatusCode::OK);
  EXPECT_EQ(SetAlias("models/m@more", model), StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ModelServiceTest, DeletesAFinishedJobWithItsFiles) {
  const std::string job = FinishedJob("a");
  const std::string other = Create(TestSpec(1)).name();
  EXPECT_EQ(DeleteJob(other).error_code(), StatusCode::FAILED_PRECONDITION);
  ASSERT_EQ(DeleteJob(job).error_code(), StatusCode::OK);
  EXPECT_EQ(DeleteJob(job).error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(DeleteJob("x").error_code(), StatusCode::INVALID_ARGUMENT);
  Restart();
  v1::Model model;
  EXPECT_EQ(GetModel(job + "/models/final", &model).error_code(),
            StatusCode::NOT_FOUND);
  EXPECT_FALSE(std::filesystem::exists(options_.data_dir + "/artifacts/" +
                                       job.substr(5)));
}

TEST_F(ModelServiceTest, ListsCheckpoints) {
  const std::string job = Create(TestSpec(1)).name();
  v1::ListJobCheckpointsRequest request;
  v1::ListJobCheckpointsResponse page;
  request.set_parent(job);
  const auto list = [&] {
    return models_->ListJobCheckpoints(Context().get(), request, &page)
        .error_code();
  };
  EXPECT_EQ(list(), StatusCode::OK);
  EXPECT_EQ(page.checkpoints_size(), 0);
  request.set_parent("jobs/none");
  EXPECT_EQ(list(), StatusCode::NOT_FOUND);
  request.set_parent("none");
  EXPECT_EQ(list(), StatusCode::INVALID_ARGUMENT);
}

TEST(ModelListingTest, CheckpointPagesGoOnWhenOldOnesWent) {
  v1::Job job;
  job.set_name("jobs/a");
  for (int step : {100, 200, 300, 400}) job.add_checkpoints()->set_step(step);
  v1::ListJobCheckpointsRequest request;
  request.set_page_size(2);
  ASSERT_OK_AND_ASSIGN(auto page, ListCheckpoints(job, request));
  EXPECT_EQ(page.checkpoints(1).step(), 200);
  request.set_page_token(page.next_page_token());
  job.mutable_checkpoints()->DeleteSubrange(0, 2);
  ASSERT_OK_AND_ASSIGN(page, ListCheckpoints(job, request));
  ASSERT_EQ(page.checkpoints_size(), 2);
  EXPECT_EQ(page.checkpoints(0).step(), 300);
  EXPECT_EQ(page.next_page_token(), "");
}

TEST(ModelListingTest, HostileConfigsAreDamaged) {
  const auto code = [](const std::string& config) {
    v1::Model model;
    return AddConfig(config, &model).code();
  };
  for (const char* config :
       {"", "[]", "nonsense", "{}", R"({"model": 3})",
        R"({"model": {"factorisation": []}})",
        R"({"model": {"factorisation": {"a": {"ranks": ["x"]}}}})",
        R"({"model": {"factorisation": {"a": {"ranks": [-1]}}}})",
        R"({"model": {"factorisation": {"a": {"ranks": [99999999999]}}}})",
        R"({"model": {"factorisation": {"a": 7}}})"}) {
    EXPECT_EQ(code(config), absl::StatusCode::kDataLoss) << config;
  }
  EXPECT_EQ(code(std::string(100000, '[')), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(R"({"model": {"factorisation": {}}, "size_bytes": -1,
                     "training": {"step": 1e300}})"),
            absl::StatusCode::kOk);
}

}  // namespace
}  // namespace comera::server
