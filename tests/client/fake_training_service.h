// A TrainingService on loopback whose answers a test defines.
#ifndef COMERA_TESTS_CLIENT_FAKE_TRAINING_SERVICE_H_
#define COMERA_TESTS_CLIENT_FAKE_TRAINING_SERVICE_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comera/v1/training_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {

// Set the handlers, then start. A handler that is not set answers
// UNIMPLEMENTED. Handlers run on gRPC's threads, one at a time.
class FakeTrainingService : public v1::TrainingService::Service {
 public:
  template <typename Request, typename Response>
  using Unary = std::function<grpc::Status(const Request&, Response*)>;
  template <typename Request, typename Response>
  using Stream = std::function<grpc::Status(
      const Request&, grpc::ServerContext*, grpc::ServerWriter<Response>*)>;

  Unary<v1::CreateJobRequest, v1::Job> create_job;
  Unary<v1::GetJobRequest, v1::Job> get_job;
  Unary<v1::ListJobsRequest, v1::ListJobsResponse> list_jobs;
  Unary<v1::CancelJobRequest, v1::Job> cancel_job;
  Unary<v1::ResumeJobRequest, v1::Job> resume_job;
  Unary<v1::DeleteJobRequest, v1::DeleteJobResponse> delete_job;
  Unary<v1::ReadSeriesRequest, v1::JobSeries> read_series;
  Unary<v1::ListWorkersRequest, v1::ListWorkersResponse> list_workers;
  Unary<v1::DeleteWorkerRequest, v1::DeleteWorkerResponse> delete_worker;
  Stream<v1::WatchJobRequest, v1::WatchJobResponse> watch_job;
  Stream<v1::ReadLogRequest, v1::ReadLogResponse> read_log;
  Stream<v1::DownloadArtifactRequest, v1::DownloadArtifactResponse> download;

  // Further services at the same address; they must outlive this.
  std::vector<grpc::Service*> others;

  ~FakeTrainingService() override { Shutdown(); }

  // Returns once no handler runs. Call it before destroying what handlers refer
  // to.
  void Shutdown() {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
    Settle();
  }

  // Returns the address it serves on; `listen` may set the port.
  std::string Start(const std::string& listen = "127.0.0.1:0") {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    for (grpc::Service* other : others) builder.RegisterService(other);
    Settle();
    server_ = builder.BuildAndStart();
    return "127.0.0.1:" + std::to_string(port);
  }

  // Makes the test's writes visible to handlers, and theirs to the test, also
  // to ThreadSanitizer, which does not see gRPC's own ordering.
  void Settle() { std::lock_guard<std::mutex> lock(mutex_); }

  grpc::Status CreateJob(grpc::ServerContext*,
                         const v1::CreateJobRequest* request,
                         v1::Job* response) override {
    return Answer(create_job, *request, response);
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* response) override {
    return Answer(get_job, *request, response);
  }
  grpc::Status ListJobs(grpc::ServerContext*,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    return Answer(list_jobs, *request, response);
  }
  grpc::Status CancelJob(grpc::ServerContext*,
                         const v1::CancelJobRequest* request,
                         v1::Job* response) override {
    return Answer(cancel_job, *request, response);
  }
  grpc::Status ResumeJob(grpc::ServerContext*,
                         const v1::ResumeJobRequest* request,
                         v1::Job* response) override {
    return Answer(resume_job, *request, response);
  }
  grpc::Status DeleteJob(grpc::ServerContext*,
                         const v1::DeleteJobRequest* request,
                         v1::DeleteJobResponse* response) override {
    return Answer(delete_job, *request, response);
  }
  grpc::Status ReadSeries(grpc::ServerContext*,
                          const v1::ReadSeriesRequest* request,
                          v1::JobSeries* response) override {
    return Answer(read_series, *request, response);
  }
  grpc::Status ListWorkers(grpc::ServerContext*,
                           const v1::ListWorkersRequest* request,
                           v1::ListWorkersResponse* response) override {
    return Answer(list_workers, *request, response);
  }
  grpc::Status DeleteWorker(grpc::ServerContext*,
                            const v1::DeleteWorkerRequest* request,
                            v1::DeleteWorkerResponse* response) override {
    return Answer(delete_worker, *request, response);
  }
  grpc::Status GetServerInfo(grpc::ServerContext*,
                             const v1::GetServerInfoRequest*,
                             v1::ServerInfo* response) override {
    response->set_version("9.9.9");
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(
      grpc::ServerContext* context, const v1::WatchJobRequest* request,
      grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    return Serve(watch_job, *request, context, writer);
  }
  grpc::Status ReadLog(
      grpc::ServerContext* context, const v1::ReadLogRequest* request,
      grpc::ServerWriter<v1::ReadLogResponse>* writer) override {
    return Serve(read_log, *request, context, writer);
  }
  grpc::Status DownloadArtifact(
      grpc::ServerContext* context, const v1::DownloadArtifactRequest* request,
      grpc::ServerWriter<v1::DownloadArtifactResponse>* writer) override {
    return Serve(download, *request, context, writer);
  }

 private:
  template <typename Request, typename Response>
  grpc::Status Answer(const Unary<Request, Response>& handler,
                      const Request& request, Response* response) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!handler) return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
    return handler(request, response);
  }
  template <typename Request, typename Response>
  grpc::Status Serve(const Stream<Request, Response>& handler,
                     const Request& request, grpc::ServerContext* context,
                     grpc::ServerWriter<Response>* writer) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!handler) return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
    return handler(request, context, writer);
  }

  std::mutex mutex_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace comera::client

#endif  // COMERA_TESTS_CLIENT_FAKE_TRAINING_SERVICE_H_
