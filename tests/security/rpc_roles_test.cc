// Calls every rpc of a running coordinator, with a request that is good for
// whoever may make it, as each kind of caller. The outcome is the table of
// docs/security.md, which
//
//   bazel run //tests/security:rpc_roles_test -- --print
//
// writes anew. An rpc for which this test has no request fails it.
#include <algorithm>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comera/v1/backup_service.pb.h"
#include "comera/v1/dataset_service.pb.h"
#include "comera/v1/model_service.pb.h"
#include "comera/v1/predict_service.pb.h"
#include "comera/v1/queue_service.pb.h"
#include "comera/v1/sweep_service.pb.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"
#include "tests/e2e/tiny_job.h"
#include "tests/security/token_server.h"
#include "tests/server/test_spec.h"

namespace comera::e2e {
namespace {

using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using Code = grpc::StatusCode;

constexpr char kPackage[] = "comera.v1.";

const char* CodeName(Code code) {
  switch (code) {
    case Code::UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    case Code::PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    default:
      return "yes";
  }
}

// The coordinator with what calls need: two queues, a worker with a running
// job, finished jobs with models, a dataset, and a token for each kind of
// caller.
class World {
 public:
  explicit World(const std::string& folder)
      // The worker is silent while others are called.
      : server_(folder, {"--node_lost_after=1h"}),
        worker_(&server_, "w1", server_.MakeWorker("w1")) {
    for (const char* queue : {"main", "other"}) MakeQueue(queue);
    callers_ = {
        {"no token", ""},
        {"viewer", server_.MakeUser("vera", {{"main", v1::ROLE_VIEWER}})},
        {"user", server_.MakeUser("alice", {{"main", v1::ROLE_USER}})},
        {"other queue's user",
         server_.MakeUser("bob", {{"other", v1::ROLE_USER}})},
        {"worker", worker_.secret()},
        {"admin", server_.admin()}};
    alice_ = callers_[2].second;
    UploadDataset();
    for (int i = 0; i < kModels; ++i) {
      const std::string job = MakeJob();
      worker_.AwaitMember(job);
      worker_.AddLog(job, 0, "hello\n");
      worker_.Succeed(job, absl::StrCat("model ", i));
      finished_.push_back(job);
    }
    v1::JobSpec spec = Spec();
    spec.mutable_data()->mutable_code_directory()->clear_roots();
    spec.mutable_data()->mutable_code_directory()->add_roots("datasets/data");
    running_ = MakeJob(spec);
    worker_.AwaitMember(running_);
  }

  // Names of callers with their secrets, in the order of the table.
  const std::vector<std::pair<std::string, std::string>>& callers() const {
    return callers_;
  }
  TokenServer& server() { return server_; }
  PlayedWorker& worker() { return worker_; }

  // Things for one call each, all alice's, in the queue `main`.
  std::string MakeJob(const v1::JobSpec& spec = Spec()) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    return Do<v1::Job>("TrainingService/CreateJob", request).name();
  }
  std::string MakePausedJob() {
    v1::PauseJobRequest request;
    request.set_name(MakeJob());
    return Do<v1::Job>("TrainingService/PauseJob", request).name();
  }
  std::string MakeEndedJob() {
    v1::CancelJobRequest request;
    request.set_name(MakeJob());
    return Do<v1::Job>("TrainingService/CancelJob", request).name();
  }
  std::string MakeQueue(const std::string& id) {
    v1::CreateQueueRequest request;
    request.set_queue_id(id);
    request.mutable_queue();
    return server_
        .Must<v1::Queue>("/comera.v1.QueueService/CreateQueue", server_.admin(),
                         request)
        .name();
  }
  std::string MakeSweep() {
    return Do<v1::Sweep>("SweepService/CreateSweep", SweepRequest()).name();
  }
  std::string MakeEndedSweep() {
    v1::CancelSweepRequest cancel;
    cancel.set_name(MakeSweep());
    Do<v1::Sweep>("SweepService/CancelSweep", cancel);
    v1::WatchSweepRequest watch;
    watch.set_name(cancel.name());
    // Until it has ended.
    server_.Call("/comera.v1.SweepService/WatchSweep", alice_,
                 {watch.SerializeAsString()});
    return cancel.name();
  }
  std::string MakeDataset() {
    return Do<v1::Dataset>("DatasetService/CreateDataset",
                           DatasetRequest(NextId()))
        .name();
  }
  std::string MakeAlias() {
    v1::SetModelAliasRequest request;
    request.set_alias(absl::StrCat("models/m@", NextId()));
    request.set_model(Model(0));
    Do<v1::Model>("ModelService/SetModelAlias", request);
    return request.alias();
  }
  std::string MakeTicket() {
    v1::CreateTicketRequest request;
    request.set_model(Model(0));
    request.set_worker("workers/w1");
    return Do<v1::CreateTicketResponse>("ModelService/CreateTicket", request)
        .ticket();
  }
  // One that nobody has deleted.
  std::string ModelToDelete() {
    next_model_ = std::min(next_model_ + 1, kModels - 1);
    return Model(next_model_);
  }
  std::string NextId() { return absl::StrCat("n", ++next_id_); }

  std::string Model(int i) const { return finished_[i] + "/models/final"; }
  const std::string& finished() const { return finished_[0]; }
  const std::string& running() const { return running_; }
  const std::string& blob() const { return blob_; }
  static v1::JobSpec Spec() {
    v1::JobSpec spec = server::TestSpec(1);
    spec.set_queue("main");
    return spec;
  }
  static v1::CreateSweepRequest SweepRequest() {
    v1::CreateSweepRequest request;
    *request.mutable_spec()->mutable_job() = Spec();
    request.mutable_spec()->mutable_grid()->add_seeds(1);
    request.mutable_spec()->mutable_grid()->add_seeds(2);
    return request;
  }
  v1::CreateDatasetRequest DatasetRequest(const std::string& id) const {
    v1::CreateDatasetRequest request;
    request.set_dataset_id(id);
    v1::DatasetFile& file = *request.add_files();
    file.set_path("a.h");
    file.set_size_bytes(static_cast<int64_t>(strlen(kData)));
    file.set_sha256(blob_);
    return request;
  }
  std::vector<std::string> BlobMessages() const {
    v1::UploadBlobRequest header, data;
    header.mutable_header()->set_sha256(blob_);
    header.mutable_header()->set_size_bytes(
        static_cast<int64_t>(strlen(kData)));
    data.set_data(kData);
    return {header.SerializeAsString(), data.SerializeAsString()};
  }

 private:
  static constexpr char kData[] = "int main() { return 0; }\n";
  // One to look at, and one to delete for each kind of caller.
  static constexpr int kModels = 7;

  template <typename Response>
  Response Do(const std::string& method, const Message& request) {
    return server_.Must<Response>(absl::StrCat("/comera.v1.", method), alice_,
                                  request);
  }

  void UploadDataset() {
    blob_ = DescribeFile("", kData).sha256();
    server_.Call("/comera.v1.DatasetService/UploadBlob", alice_,
                 BlobMessages());
    Do<v1::Dataset>("DatasetService/CreateDataset", DatasetRequest("data"));
  }

  TokenServer server_;
  PlayedWorker worker_;
  std::vector<std::pair<std::string, std::string>> callers_;
  std::string alice_, running_, blob_;
  std::vector<std::string> finished_;
  int next_model_ = 0, next_id_ = 0;
};

// What to call an rpc with, made anew for each caller, and what comes back to
// those who may.
struct Row {
  std::function<std::vector<std::string>(World& world)> request;
  Code allowed = Code::OK;
};

template <typename Request>
Row Named(std::string (World::*make)()) {
  return {[=](World& world) {
    Request request;
    request.set_name((world.*make)());
    return std::vector<std::string>{request.SerializeAsString()};
  }};
}

template <typename Request>
Row NamedAs(const std::function<std::string(World&)>& name) {
  return {[=](World& world) {
    Request request;
    request.set_name(name(world));
    return std::vector<std::string>{request.SerializeAsString()};
  }};
}

template <typename Request>
Row Filled(const std::function<void(World&, Request&)>& fill) {
  return {[=](World& world) {
    Request request;
    fill(world, request);
    return std::vector<std::string>{request.SerializeAsString()};
  }};
}

Row Empty() {
  return {[](World&) { return std::vector<std::string>{""}; }};
}

void AddJobRows(std::map<std::string, Row>* rows) {
  const auto job = [](World& world) { return world.MakeJob(); };
  const auto finished = [](World& world) { return world.finished(); };
  const auto worker = [](World&) { return std::string("workers/w1"); };
  auto& all = *rows;
  all["TrainingService.CreateJob"] =
      Filled<v1::CreateJobRequest>([](World&, v1::CreateJobRequest& request) {
        *request.mutable_spec() = World::Spec();
      });
  all["TrainingService.GetJob"] = NamedAs<v1::GetJobRequest>(job);
  all["TrainingService.ListJobs"] = Empty();
  all["TrainingService.CancelJob"] = NamedAs<v1::CancelJobRequest>(job);
  all["TrainingService.PauseJob"] = NamedAs<v1::PauseJobRequest>(job);
  all["TrainingService.ResumeJob"] =
      Named<v1::ResumeJobRequest>(&World::MakePausedJob);
  all["TrainingService.DeleteJob"] =
      Named<v1::DeleteJobRequest>(&World::MakeEndedJob);
  all["TrainingService.ExplainJob"] = NamedAs<v1::ExplainJobRequest>(job);
  all["TrainingService.WatchJob"] = NamedAs<v1::WatchJobRequest>(finished);
  all["TrainingService.ReadSeries"] = Filled<v1::ReadSeriesRequest>(
      [](World& world, v1::ReadSeriesRequest& request) {
        request.set_name(world.finished());
        request.set_max_points(1);
      });
  all["TrainingService.ReadLog"] = NamedAs<v1::ReadLogRequest>(finished);
  all["TrainingService.DownloadArtifact"] = Filled<v1::DownloadArtifactRequest>(
      [](World& world, v1::DownloadArtifactRequest& request) {
        request.set_name(world.Model(0));
        request.set_path("model.safetensors");
      });
  all["TrainingService.ListWorkers"] = Empty();
  all["TrainingService.GetWorker"] = NamedAs<v1::GetWorkerRequest>(worker);
  all["TrainingService.DrainWorker"] = Filled<v1::DrainWorkerRequest>(
      [](World&, v1::DrainWorkerRequest& request) {
        request.set_name("workers/w1");
        request.set_wait(true);
      });
  all["TrainingService.ResumeWorker"] =
      NamedAs<v1::ResumeWorkerRequest>(worker);
  all["TrainingService.DeleteWorker"] =
      NamedAs<v1::DeleteWorkerRequest>(worker);
  // A member runs there.
  all["TrainingService.DeleteWorker"].allowed = Code::FAILED_PRECONDITION;
  all["TrainingService.GetServerInfo"] = Empty();
  all["WorkerService.Synchronize"] = {[](World& world) {
    return std::vector<std::string>{
        world.worker().Report().SerializeAsString()};
  }};
  all["WorkerService.UploadArtifact"] = {[](World& world) {
    v1::UploadArtifactRequest header, data;
    header.mutable_header()->set_artifact(world.running() + "/models/final");
    header.mutable_header()->set_attempt(1);
    *header.mutable_header()->mutable_file() =
        DescribeFile("model.safetensors", "x");
    data.set_data("x");
    return std::vector<std::string>{header.SerializeAsString(),
                                    data.SerializeAsString()};
  }};
  all["WorkerService.RedeemTicket"] = Filled<v1::RedeemTicketRequest>(
      [](World& world, v1::RedeemTicketRequest& request) {
        request.set_ticket(world.MakeTicket());
      });
}

void AddModelRows(std::map<std::string, Row>* rows) {
  const auto model = [](World& world) { return world.Model(0); };
  auto& all = *rows;
  all["ModelService.ListModels"] = Empty();
  all["ModelService.GetModel"] = NamedAs<v1::GetModelRequest>(model);
  all["ModelService.DeleteModel"] =
      Named<v1::DeleteModelRequest>(&World::ModelToDelete);
  all["ModelService.PinModel"] = NamedAs<v1::PinModelRequest>(model);
  all["ModelService.UnpinModel"] = NamedAs<v1::UnpinModelRequest>(model);
  all["ModelService.SetModelAlias"] = Filled<v1::SetModelAliasRequest>(
      [](World& world, v1::SetModelAliasRequest& request) {
        request.set_alias(absl::StrCat("models/m@", world.NextId()));
        request.set_model(world.Model(0));
      });
  all["ModelService.GetModelAlias"] =
      Named<v1::GetModelAliasRequest>(&World::MakeAlias);
  all["ModelService.DeleteModelAlias"] =
      Named<v1::DeleteModelAliasRequest>(&World::MakeAlias);
  all["ModelService.ListJobCheckpoints"] =
      Filled<v1::ListJobCheckpointsRequest>(
          [](World& world, v1::ListJobCheckpointsRequest& request) {
            request.set_parent(world.finished());
          });
  all["ModelService.CreateTicket"] = Filled<v1::CreateTicketRequest>(
      [](World& world, v1::CreateTicketRequest& request) {
        request.set_model(world.Model(0));
        request.set_worker("workers/w1");
      });
  all["ModelService.TryGenerate"] = NamedAs<v1::GenerateRequest>(model);
  // The worker that is played serves no models.
  all["ModelService.TryGenerate"].allowed = Code::FAILED_PRECONDITION;
}

void AddDatasetRows(std::map<std::string, Row>* rows) {
  const auto version = [](World&) { return std::string("datasets/data@1"); };
  auto& all = *rows;
  all["DatasetService.QueryBlobs"] = Filled<v1::QueryBlobsRequest>(
      [](World& world, v1::QueryBlobsRequest& request) {
        request.add_sha256(world.blob());
      });
  all["DatasetService.UploadBlob"] = {
      [](World& world) { return world.BlobMessages(); }};
  all["DatasetService.CreateDataset"] = {[](World& world) {
    return std::vector<std::string>{
        world.DatasetRequest(world.NextId()).SerializeAsString()};
  }};
  all["DatasetService.GetDataset"] = NamedAs<v1::GetDatasetRequest>(
      [](World&) { return std::string("datasets/data"); });
  all["DatasetService.ListDatasets"] = Empty();
  all["DatasetService.ListDatasetFiles"] =
      NamedAs<v1::ListDatasetFilesRequest>(version);
  all["DatasetService.DescribeDataset"] =
      NamedAs<v1::DescribeDatasetRequest>(version);
  all["DatasetService.DeleteDataset"] =
      Named<v1::DeleteDatasetRequest>(&World::MakeDataset);
  all["DatasetService.DownloadBlob"] = Filled<v1::DownloadBlobRequest>(
      [](World& world, v1::DownloadBlobRequest& request) {
        request.set_sha256(world.blob());
      });
}

void AddSweepRows(std::map<std::string, Row>* rows) {
  auto& all = *rows;
  all["SweepService.CreateSweep"] = {[](World&) {
    return std::vector<std::string>{World::SweepRequest().SerializeAsString()};
  }};
  all["SweepService.GetSweep"] = Named<v1::GetSweepRequest>(&World::MakeSweep);
  all["SweepService.ListSweeps"] = Empty();
  all["SweepService.CancelSweep"] =
      Named<v1::CancelSweepRequest>(&World::MakeSweep);
  all["SweepService.DeleteSweep"] =
      Named<v1::DeleteSweepRequest>(&World::MakeEndedSweep);
  all["SweepService.WatchSweep"] =
      Named<v1::WatchSweepRequest>(&World::MakeSweep);
  all["SweepService.ComputeFront"] = Filled<v1::ComputeFrontRequest>(
      [](World& world, v1::ComputeFrontRequest& request) {
        request.add_names(world.finished());
      });
}

void AddServerRows(std::map<std::string, Row>* rows) {
  auto& all = *rows;
  all["QueueService.CreateQueue"] = Filled<v1::CreateQueueRequest>(
      [](World& world, v1::CreateQueueRequest& request) {
        request.set_queue_id(world.NextId());
        request.mutable_queue();
      });
  all["QueueService.GetQueue"] = NamedAs<v1::GetQueueRequest>(
      [](World&) { return std::string("queues/main"); });
  all["QueueService.ListQueues"] = Empty();
  all["QueueService.UpdateQueue"] = Filled<v1::UpdateQueueRequest>(
      [](World&, v1::UpdateQueueRequest& request) {
        request.mutable_queue()->set_name("queues/main");
        request.mutable_queue()->set_weight(2);
        request.mutable_update_mask()->add_paths("weight");
      });
  all["QueueService.DeleteQueue"] = NamedAs<v1::DeleteQueueRequest>(
      [](World& world) { return world.MakeQueue(world.NextId()); });
  all["AccessService.CreateToken"] = Filled<v1::CreateTokenRequest>(
      [](World&, v1::CreateTokenRequest& request) {
        request.set_user("carol");
        request.set_role(v1::ROLE_VIEWER);
      });
  all["AccessService.ListTokens"] = Empty();
  all["AccessService.RevokeToken"] =
      NamedAs<v1::RevokeTokenRequest>([](World& world) {
        return TokenServer::NameOf(
            world.server().MakeUser("dave", {{"main", v1::ROLE_VIEWER}}));
      });
  all["AccessService.WhoAmI"] = Empty();
  all["AccessService.ListAuditEntries"] = Empty();
  all["BackupService.CreateBackup"] = Empty();
}

std::map<std::string, Row> Rows() {
  std::map<std::string, Row> rows;
  AddJobRows(&rows);
  AddModelRows(&rows);
  AddDatasetRows(&rows);
  AddSweepRows(&rows);
  AddServerRows(&rows);
  return rows;
}

// The names of the services that the server has, by reflection.
std::vector<std::string> ListServices(TokenServer& server) {
  // ServerReflectionRequest { list_services: "*" }
  const TokenServer::Answer answer = server.Call(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      server.admin(), {"\x3a\x01*"}, 1);
  EXPECT_EQ(answer.messages.size(), 1u) << answer.status.error_message();
  // ServerReflectionResponse.list_services_response (6) has a list (1) of
  // messages with a name (1).
  std::vector<std::string> names;
  google::protobuf::UnknownFieldSet response, list, service;
  const auto parse = [](const std::string& bytes,
                        google::protobuf::UnknownFieldSet* fields) {
    fields->Clear();
    return fields->ParseFromString(bytes);
  };
  if (answer.messages.empty() || !parse(answer.messages[0], &response)) {
    return names;
  }
  for (int i = 0; i < response.field_count(); ++i) {
    if (response.field(i).number() != 6) continue;
    if (!parse(response.field(i).length_delimited(), &list)) continue;
    for (int k = 0; k < list.field_count(); ++k) {
      if (!parse(list.field(k).length_delimited(), &service)) continue;
      for (int n = 0; n < service.field_count(); ++n) {
        names.push_back(service.field(n).length_delimited());
      }
    }
  }
  return names;
}

// Makes all calls; returns the table. What goes wrong is a failure of the test.
std::string CallAll(const std::string& folder) {
  World world(folder);
  const std::map<std::string, Row> rows = Rows();
  std::string table = "| rpc |", line = "|---|";
  for (const auto& [name, secret] : world.callers()) {
    absl::StrAppend(&table, " ", name, " |");
    line += "---|";
  }
  absl::StrAppend(&table, "\n", line, "\n");
  std::set<std::string> called;
  for (const std::string& service : ListServices(world.server())) {
    if (!absl::StartsWith(service, kPackage)) continue;
    const auto* descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            service);
    if (descriptor == nullptr) {
      ADD_FAILURE() << "this test does not know " << service;
      continue;
    }
    for (int i = 0; i < descriptor->method_count(); ++i) {
      const MethodDescriptor* method = descriptor->method(i);
      const std::string name =
          absl::StrCat(descriptor->name(), ".", method->name());
      const auto row = rows.find(name);
      if (row == rows.end()) {
        ADD_FAILURE() << name << " has no request here: say in Rows() how it "
                      << "is called";
        continue;
      }
      called.insert(name);
      absl::StrAppend(&table, "| ", name, " |");
      for (const auto& [caller, secret] : world.callers()) {
        const std::vector<std::string> requests = row->second.request(world);
        const grpc::Status status =
            world.server()
                .Call(absl::StrCat("/", service, "/", method->name()), secret,
                      requests, 1)
                .status;
        const std::string cell = CodeName(status.error_code());
        absl::StrAppend(&table, " ", cell, " |");
        if (cell == "yes") {
          EXPECT_EQ(status.error_code(), row->second.allowed)
              << name << " by " << caller << ": " << status.error_message();
        }
      }
      table += "\n";
    }
  }
  for (const auto& [name, row] : rows) {
    EXPECT_EQ(called.count(name), 1u) << "the server has no " << name;
  }
  return table;
}

std::string Folder() {
  const std::string folder = ::testing::TempDir() + "/rpc_roles";
  EXPECT_OK(MakeDirectories(folder));
  return folder;
}

// The table in the page: from its header to the line behind it.
std::string TableOf(const std::string& page) {
  const size_t begin = page.find("| rpc | no token |");
  if (begin == std::string::npos) return "";
  return page.substr(begin, page.find("\n\n", begin) + 1 - begin);
}

TEST(RpcRolesTest, ThePageSaysWhatHappens) {
  ASSERT_OK_AND_ASSIGN(const std::string page,
                       ReadFile(Binary("docs/security.md")));
  const std::string table = CallAll(Folder());
  const std::vector<std::string> is = absl::StrSplit(table, '\n');
  const std::vector<std::string> told = absl::StrSplit(TableOf(page), '\n');
  EXPECT_THAT(told, ::testing::ElementsAreArray(is))
      << "docs/security.md: `bazel run //tests/security:rpc_roles_test -- "
         "--print` writes its table anew";
}

}  // namespace
}  // namespace comera::e2e

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::strcmp(argv[1], "--print") == 0) {
    setenv("TEST_SRCDIR", "..", 0);
    std::cout << comera::e2e::CallAll(comera::e2e::Folder());
    return 0;
  }
  return RUN_ALL_TESTS();
}
