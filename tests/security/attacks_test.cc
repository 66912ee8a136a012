// Attacks by holders of tokens, on real processes: a worker's token and a
// viewer's, a user whose token is revoked, and a worker that is none. Each test
// runs several attacks on one cluster.
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "comera/v1/dataset_service.grpc.pb.h"
#include "comera/v1/model_service.pb.h"
#include "comera/v1/peer_service.grpc.pb.h"
#include "comera/v1/predict_service.grpc.pb.h"
#include "comera/v1/sweep_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "tests/common/http/http_client.h"
#include "tests/e2e/command.h"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"
#include "tests/security/token_server.h"
#include "tests/server/test_spec.h"

namespace comera::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Code = grpc::StatusCode;

constexpr absl::Duration kBound = absl::Seconds(120);

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Keeps what callers send, and serves no model.
class FalseWorker : public v1::PredictService::Service {
 public:
  FalseWorker() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  std::multimap<std::string, std::string> seen() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return seen_;
  }

 private:
  grpc::Status LoadModel(grpc::ServerContext* context,
                         const v1::LoadModelRequest*,
                         v1::ServedModel*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [key, value] : context->client_metadata()) {
      seen_.emplace(std::string(key.data(), key.size()),
                    std::string(value.data(), value.size()));
    }
    return grpc::Status(Code::FAILED_PRECONDITION, "no model");
  }

  int port_ = 0;
  std::mutex mutex_;
  std::multimap<std::string, std::string> seen_;
  std::unique_ptr<grpc::Server> server_;
};

class AttacksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_OK(MakeDirectories(folder_));
    server_ = std::make_unique<TokenServer>(folder_);
    alice_ = server_->MakeUser("alice", {{"default", v1::ROLE_USER}});
  }

  PlayedWorker Play(const std::string& name) {
    return {server_.get(), name, server_->MakeWorker(name)};
  }

  std::string MakeJob() {
    v1::CreateJobRequest request;
    *request.mutable_spec() = server::TestSpec(1);
    return server_
        ->Must<v1::Job>("/comera.v1.TrainingService/CreateJob", alice_, request)
        .name();
  }

  std::string Log(const std::string& job) {
    v1::ReadLogRequest request;
    request.set_name(job);
    std::string text;
    for (const std::string& message :
         server_
             ->Call("/comera.v1.TrainingService/ReadLog", alice_,
                    {request.SerializeAsString()})
             .messages) {
      v1::ReadLogResponse part;
      part.ParseFromString(message);
      text += part.data();
    }
    return text;
  }

  Code CodeOf(const std::string& method, const std::string& secret,
              const google::protobuf::Message& request) {
    return server_
        ->Call(absl::StrCat("/comera.v1.", method), secret,
               {request.SerializeAsString()}, 1)
        .status.error_code();
  }

  // Runs `comera` with the token in that file.
  CommandResult Client(const std::string& token_file,
                       std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {Binary("client/comera"), "--server", server_->address(),
                      "--token-file", token_file});
    return RunCommand(arguments, folder_ + "/client.log", kBound);
  }

  std::string folder_, alice_;
  std::unique_ptr<TokenServer> server_;
};

// A worker's token replaces another job's model, writes into and reads its log,
// and reads its model.
TEST_F(AttacksTest, AWorkersTokenReachesItsOwnJobsOnly) {
  PlayedWorker owner = Play("w1"), attacker = Play("w2");
  const std::string job = MakeJob();
  owner.AwaitMember(job);
  owner.AddLog(job, 0, "mine\n");
  const std::string model = job + "/models/final";
  const auto forged = DescribeFile("model.safetensors", "forged");
  EXPECT_EQ(attacker.Upload(model, forged, "forged").error_code(),
            Code::PERMISSION_DENIED);
  // A token of a worker, but no name with the call; a user's token.
  for (const std::string& secret : {alice_, server_->admin()}) {
    PlayedWorker user(server_.get(), "w1", secret);
    EXPECT_EQ(user.Upload(model, forged, "forged").error_code(),
              Code::PERMISSION_DENIED);
  }
  attacker.AddLog(job, 5, "forged\n");
  EXPECT_EQ(Log(job), "mine\n");
  for (const char* method : {"ReadLog", "GetJob", "WatchJob"}) {
    v1::GetJobRequest request;
    request.set_name(job);
    EXPECT_EQ(CodeOf(absl::StrCat("TrainingService/", method),
                     attacker.secret(), request),
              Code::PERMISSION_DENIED)
        << method;
  }
  owner.Succeed(job, "the model");
  // Ended: not even its own worker changes anything now.
  EXPECT_EQ(owner.Upload(model, forged, "forged").error_code(), Code::ABORTED);
  attacker.AddLog(job, 5, "forged\n");
  EXPECT_EQ(Log(job), "mine\n");
  v1::DownloadArtifactRequest download;
  download.set_name(model);
  download.set_path("model.safetensors");
  EXPECT_EQ(
      CodeOf("TrainingService/DownloadArtifact", attacker.secret(), download),
      Code::PERMISSION_DENIED);
  const TokenServer::Answer own =
      server_->Call("/comera.v1.TrainingService/DownloadArtifact", alice_,
                    {download.SerializeAsString()});
  ASSERT_EQ(own.messages.size(), 1u) << own.status.error_message();
  v1::DownloadArtifactResponse bytes;
  ASSERT_TRUE(bytes.ParseFromString(own.messages[0]));
  EXPECT_EQ(bytes.data(), "the model");
}

// A false worker waits for an administrator who predicts with --remote.
TEST_F(AttacksTest, AFalseWorkerGetsATicketThatIsWorthNothing) {
  PlayedWorker owner = Play("w1");
  const std::string job = MakeJob(), other = MakeJob();
  owner.AwaitMember(job);
  owner.Succeed(job, "the model");
  owner.AwaitMember(other);
  owner.Succeed(other, "the other model");
  FalseWorker listener;
  PlayedWorker attacker = Play("w2");
  v1::SynchronizeRequest report = attacker.Report();
  report.clear_slots();
  report.set_host(HostName());
  report.set_peer_address(listener.address());
  server_->Must<v1::SynchronizeResponse>("/comera.v1.WorkerService/Synchronize",
                                         attacker.secret(), report);
  std::ofstream(folder_ + "/rows.jsonl") << R"({"text": "int <mask>;"})"
                                         << "\n";
  const CommandResult predicted = Client(
      folder_ + "/admin.token", {"predict", job, "--remote", "--worker", "w2",
                                 "--input", folder_ + "/rows.jsonl"});
  EXPECT_NE(predicted.exit_code, 0);
  // The attack has reached its aim, as far as it can.
  const auto seen = listener.seen();
  const auto shown = seen.find(kTicketMetadata);
  ASSERT_NE(shown, seen.end())
      << ReadFile(folder_ + "/client.log").value_or("");
  const std::string secret =
      server_->admin().substr(server_->admin().rfind('_') + 1);
  for (const auto& [key, value] : seen) {
    EXPECT_THAT(value, Not(HasSubstr(secret))) << key;
    EXPECT_NE(key, "authorization");
  }
  // The ticket is no token, another worker cannot use it, and it opens one
  // model to the worker that it names.
  const std::string ticket = shown->second;
  EXPECT_EQ(CodeOf("TrainingService/ListJobs", ticket, v1::ListJobsRequest()),
            Code::UNAUTHENTICATED);
  EXPECT_EQ(
      CodeOf("AccessService/CreateToken", ticket, v1::CreateTokenRequest()),
      Code::UNAUTHENTICATED);
  v1::RedeemTicketRequest redeem;
  redeem.set_ticket(ticket);
  EXPECT_NE(CodeOf("WorkerService/RedeemTicket", owner.secret(), redeem),
            Code::OK);
  const auto redeemed = server_->Must<v1::RedeemTicketResponse>(
      "/comera.v1.WorkerService/RedeemTicket", attacker.secret(), redeem);
  v1::DownloadArtifactRequest download;
  download.set_name(other + "/models/final");
  download.set_path("model.safetensors");
  download.set_ticket(redeemed.download_ticket());
  EXPECT_EQ(
      CodeOf("TrainingService/DownloadArtifact", attacker.secret(), download),
      Code::PERMISSION_DENIED);
}

// A job reads the token of its worker, to give it back by prediction; and
// whoever reaches the worker plants a state in its memory.
TEST_F(AttacksTest, AWorkerGivesUpNeitherItsTokenNorItsMemory) {
  const std::string token = server_->MakeWorker("w");
  std::ofstream(folder_ + "/worker.token") << token << "\n";
  std::ofstream(folder_ + "/alice.token") << alice_ << "\n";
  ASSERT_OK(WriteTinyJob(folder_));
  Process worker(
      {Binary("worker/comera-worker"),
       absl::StrCat("--server=", server_->address()), "--name=w", "--slots=2",
       "--gpus=none", "--member_lease=0",
       absl::StrCat("--token_file=", folder_, "/worker.token"),
       absl::StrCat("--data_dir=", folder_, "/worker"), "--data_root=/",
       absl::StrCat("--trainer=", Binary("worker/trainer/comera-trainer"))},
      folder_ + "/worker.log");
  // A masked LM on the file with the token.
  const CommandResult submitted =
      Client(folder_ + "/alice.token",
             {"submit", folder_ + "/job.yaml", "--set",
              absl::StrCat("data.code_directory.roots=[", folder_, "]"),
              "--set", "data.code_directory.globs=[\"*.token\"]", "--set",
              "resources.processes=1"});
  ASSERT_EQ(submitted.exit_code, 0);
  const std::string job(absl::StripAsciiWhitespace(submitted.out));
  EXPECT_EQ(Client(folder_ + "/alice.token", {"wait", job}).exit_code, 100);
  const std::string told =
      Client(folder_ + "/alice.token", {"get", job, "-o", "json"}).out;
  EXPECT_THAT(told, HasSubstr("data.code_directory.roots[0]"));
  std::ofstream(folder_ + "/masks.jsonl")
      << R"({"text": "comera_<mask><mask><mask>"})"
      << "\n";
  const CommandResult predicted =
      Client(folder_ + "/alice.token",
             {"predict", job, "--remote", "--input", folder_ + "/masks.jsonl"});
  EXPECT_NE(predicted.exit_code, 0);
  const std::string secret = token.substr(token.rfind('_') + 1);
  for (const std::string& text :
       {told, predicted.out, Log(job),
        ReadFile(folder_ + "/client.log").value_or("")}) {
    EXPECT_THAT(text, Not(HasSubstr(secret)));
  }

  // The port for other workers, with no grant, a forged one, and the token.
  const auto workers = server_->Must<v1::ListWorkersResponse>(
      "/comera.v1.TrainingService/ListWorkers", alice_,
      v1::ListWorkersRequest());
  ASSERT_EQ(workers.workers_size(), 1);
  const std::string address = workers.workers(0).peer_address();
  ASSERT_NE(address, "");
  const auto peers = v1::PeerService::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  for (const std::string& grant :
       {std::string(), std::string("forged"), token}) {
    const auto context = [&] {
      auto made = TokenServer::As("");
      if (!grant.empty()) made->AddMetadata(kPeerGrantMetadata, grant);
      return made;
    };
    v1::ListCheckpointsRequest list;
    list.set_job(job);
    v1::ListCheckpointsResponse listed;
    EXPECT_EQ(
        peers->ListCheckpoints(context().get(), list, &listed).error_code(),
        Code::UNAUTHENTICATED);
    v1::GetCheckpointRequest get;
    get.set_job(job);
    const auto get_context = context();
    const auto reader = peers->GetCheckpoint(get_context.get(), get);
    v1::GetCheckpointResponse part;
    EXPECT_FALSE(reader->Read(&part));
    EXPECT_EQ(reader->Finish().error_code(), Code::UNAUTHENTICATED);
    v1::PutCheckpointRequest put;
    put.mutable_header()->set_job(job);
    put.mutable_header()->set_size_bytes(7);
    v1::PutCheckpointResponse planted;
    const auto put_context = context();
    const auto writer = peers->PutCheckpoint(put_context.get(), &planted);
    writer->Write(put);
    put.set_data("planted");
    writer->Write(put);
    writer->WritesDone();
    EXPECT_EQ(writer->Finish().error_code(), Code::UNAUTHENTICATED);
  }
}

// A viewer posts a sweep of a megabyte.
TEST_F(AttacksTest, AViewersLargeSweepIsRefusedBeforeItIsPlanned) {
  const std::string viewer =
      server_->MakeUser("vera", {{"default", v1::ROLE_VIEWER}});
  std::string values;
  for (int i = 0; i < 20000; ++i) {
    absl::StrAppend(&values, i == 0 ? "" : ",", "\"", 1e-3 + i * 1e-9, "\"");
  }
  const std::string body = absl::StrCat(
      R"({"spec":{"job":{"displayName":")", std::string(700000, 'x'),
      R"("},"grid":{"seeds":["1","2","3","4","5","6","7","8"],)",
      R"("fields":[{"path":"optimizer.learning_rate_other","values":[)", values,
      "]}]}}}");
  const absl::Time begin = absl::Now();
  HttpClient http(server_->http_address());
  const HttpReply reply = http.Call(
      "POST", "/v1/sweeps", {{"Authorization", "Bearer " + viewer}}, body);
  EXPECT_EQ(reply.code, 403) << reply.body;
  // It took 13 s and 2.3 GB once.
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  std::ifstream status(absl::StrCat("/proc/", server_->pid(), "/status"));
  int64_t peak_kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (!absl::StartsWith(line, "VmHWM:")) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    ASSERT_TRUE(absl::SimpleAtoi(words[1], &peak_kib));
  }
  EXPECT_GT(peak_kib, 0);
  EXPECT_LT(peak_kib, 512 << 10);
}

// Streams that were opened before the token was revoked: all of them end, those
// that wait for the server and those that wait for their caller.
TEST_F(AttacksTest, NoStreamOutlivesItsToken) {
  PlayedWorker worker = Play("w1");
  const std::string job = MakeJob();
  worker.AwaitMember(job);
  v1::CreateSweepRequest sweep_request;
  *sweep_request.mutable_spec()->mutable_job() = server::TestSpec(1);
  sweep_request.mutable_spec()->mutable_grid()->add_seeds(1);
  sweep_request.mutable_spec()->mutable_grid()->add_seeds(2);
  const std::string sweep =
      server_
          ->Must<v1::Sweep>("/comera.v1.SweepService/CreateSweep", alice_,
                            sweep_request)
          .name();

  struct Ended {
    std::string what;
    Code code;
    absl::Time time;
  };
  std::mutex mutex;
  std::vector<Ended> ended;
  std::vector<std::thread> threads;
  std::vector<std::promise<void>> open(5);
  const auto note = [&](const std::string& what, const grpc::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex);
    ended.push_back({what, status.error_code(), absl::Now()});
  };
  const auto training = v1::TrainingService::NewStub(server_->channel());
  const auto sweeps = v1::SweepService::NewStub(server_->channel());
  const auto datasets = v1::DatasetService::NewStub(server_->channel());
  const auto workers = v1::WorkerService::NewStub(server_->channel());
  threads.emplace_back([&] {
    const auto context = TokenServer::As(alice_);
    v1::WatchJobRequest request;
    request.set_name(job);
    const auto reader = training->WatchJob(context.get(), request);
    v1::WatchJobResponse item;
    reader->Read(&item);
    open[0].set_value();
    while (reader->Read(&item)) continue;
    note("watch", reader->Finish());
  });
  threads.emplace_back([&] {
    worker.AddLog(job, 0, "hello\n");
    const auto context = TokenServer::As(alice_);
    v1::ReadLogRequest request;
    request.set_name(job);
    request.set_follow(true);
    const auto reader = training->ReadLog(context.get(), request);
    v1::ReadLogResponse item;
    reader->Read(&item);
    open[1].set_value();
    while (reader->Read(&item)) continue;
    note("log", reader->Finish());
  });
  threads.emplace_back([&] {
    const auto context = TokenServer::As(alice_);
    v1::WatchSweepRequest request;
    request.set_name(sweep);
    const auto reader = sweeps->WatchSweep(context.get(), request);
    v1::WatchSweepResponse item;
    reader->Read(&item);
    open[2].set_value();
    while (reader->Read(&item)) continue;
    note("sweep", reader->Finish());
  });
  const std::string data(1 << 20, 'x');
  // Uploads that stop half-way.
  threads.emplace_back([&] {
    const auto context = TokenServer::As(alice_);
    v1::UploadBlobResponse response;
    const auto writer = datasets->UploadBlob(context.get(), &response);
    v1::UploadBlobRequest request;
    request.mutable_header()->set_sha256(DescribeFile("", data).sha256());
    request.mutable_header()->set_size_bytes(1 << 20);
    writer->Write(request);
    request.set_data("xxx");
    writer->Write(request);
    open[3].set_value();
    note("blob", writer->Finish());
  });
  threads.emplace_back([&] {
    const auto context = TokenServer::As(worker.secret());
    v1::UploadArtifactResponse response;
    const auto writer = workers->UploadArtifact(context.get(), &response);
    v1::UploadArtifactRequest request;
    request.mutable_header()->set_artifact(job + "/models/final");
    request.mutable_header()->set_attempt(1);
    *request.mutable_header()->mutable_file() =
        DescribeFile("model.safetensors", data);
    writer->Write(request);
    request.set_data("xxx");
    writer->Write(request);
    open[4].set_value();
    note("artifact", writer->Finish());
  });
  for (std::promise<void>& one : open) one.get_future().wait();
  const absl::Time revoked = absl::Now();
  server_->Revoke(alice_);
  server_->Revoke(worker.secret());
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(ended.size(), threads.size());
  for (const Ended& one : ended) {
    EXPECT_EQ(one.code, Code::UNAUTHENTICATED) << one.what;
    const absl::Duration took = one.time - revoked;
    std::cout << one.what << " ended after " << took << "\n";
    // A second on a machine that does nothing else.
    EXPECT_LT(took, absl::Seconds(10)) << one.what;
  }
}

// A worker serves no states to other machines unencrypted, unless it is told
// to.
TEST(PeersTest, PlainTextIsForOneMachine) {
  const auto start = [](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {Binary("worker/comera-worker"),
                                        "--print-config", "--gpus=none"};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunCommand(command, ::testing::TempDir() + "/worker.log", kBound)
        .exit_code;
  };
  EXPECT_NE(start({"--address=192.0.2.1"}), 0);
  EXPECT_NE(start({"--address=worker.example"}), 0);
  EXPECT_NE(start({"--address=192.0.2.1", "--ca=system", "--cert=c"}), 0);
  EXPECT_THAT(ReadFile(::testing::TempDir() + "/worker.log").value_or(""),
              HasSubstr("--insecure_peers"));
  EXPECT_EQ(start({"--address=192.0.2.1", "--insecure_peers"}), 0);
  EXPECT_EQ(start({"--address=192.0.2.1", "--replica_memory=0"}), 0);
  EXPECT_EQ(
      start({"--address=192.0.2.1", "--ca=ca.pem", "--cert=c", "--key=k"}), 0);
  for (const char* here : {"127.0.0.1", "127.0.0.7", "::1", "localhost"}) {
    EXPECT_EQ(start({absl::StrCat("--address=", here)}), 0) << here;
  }
}

}  // namespace
}  // namespace comera::e2e
