#ifndef COMERA_TESTS_SERVER_DAEMON_SERVER_FIXTURE_H_
#define COMERA_TESTS_SERVER_DAEMON_SERVER_FIXTURE_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comera/v1/training_service.grpc.pb.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "server/daemon/comera_server.h"
#include "tests/server/manual_clock.h"
#include "tests/server/temp_dir.h"
#include "tests/server/test_spec.h"

namespace comera::server {

// A real server on a free loopback port, real stubs, a simulated clock, and
// workers driven by hand.
class ServerFixture : public ::testing::Test {
 protected:
  // A worker daemon's side of Synchronize.
  struct Worker {
    std::string id;
    std::string incarnation = "i1";
    int slots = 2;
    int64_t seen_version = 0;
    std::vector<v1::MemberStatus> ranks = {};
    std::vector<v1::ProgressReport> reports = {};
    std::vector<v1::LogChunk> logs = {};
    absl::Duration hold = absl::ZeroDuration();
    // Where it serves models; empty: it serves none.
    std::string address = {};
    // Its machine; empty: one of its own.
    std::string host = {};
  };

  ServerFixture();
  ~ServerFixture() override;

  void StartServer();
  void StopServer();
  void RestartServer() {
    StopServer();
    StartServer();
  }

  // Sets a deadline so that no test hangs.
  static std::unique_ptr<grpc::ClientContext> Context();
  // The same with a token's secret, if it is not empty.
  static std::unique_ptr<grpc::ClientContext> As(const std::string& secret);

  // Fails the test if the call fails.
  v1::Job Create(const v1::JobSpec& spec, const std::string& request_id = "");
  v1::Job Get(const std::string& name);
  v1::Job Cancel(const std::string& name);
  grpc::Status Sync(Worker& worker, v1::SynchronizeResponse* response);
  v1::SynchronizeResponse Sync(Worker& worker);
  // Registers the worker, starts what is desired of it, reports it running.
  void RunAll(Worker& worker);
  grpc::Status Upload(const std::string& artifact, int64_t attempt,
                      const v1::ArtifactFile& file, const std::string& data);
  // All messages of a stream but those with which a waiting job comes again, and
  // how it ended.
  std::vector<v1::WatchJobResponse> Watch(const std::string& name,
                                          int64_t after, grpc::Status* status);
  grpc::Status ReadLog(const v1::ReadLogRequest& request, std::string* data);
  grpc::Status Download(const std::string& name, const std::string& path,
                        int64_t offset, std::string* data);

  TempDir folder_;
  ManualClock clock_;
  RandomIdSource ids_;
  ComeraServer::Options options_;
  std::unique_ptr<ComeraServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::TrainingService::Stub> training_;
  std::unique_ptr<v1::WorkerService::Stub> worker_stub_;
};

// The file's description, as a worker would compute it.
v1::ArtifactFile Describe(const std::string& path, const std::string& data);

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_DAEMON_SERVER_FIXTURE_H_
