#ifndef COMERA_SERVER_API_TRAINING_SERVICE_H_
#define COMERA_SERVER_API_TRAINING_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "comera/v1/training_service.grpc.pb.h"
#include "server/api/query_places.h"
#include "server/auth/access.h"
#include "server/auth/ticket_office.h"
#include "server/auth/unary_call.h"
#include "server/coordinator/job/prepared_job.h"
#include "server/host/coordinator_host.h"
#include "server/runtime/event_loop.h"
#include "server/view/series_reader.h"

namespace comera::server {

// The clients' API over a CoordinatorHost: checks requests, translates errors.
// Thread-safe; never blocks a gRPC thread. Errors: training_service.proto.
class TrainingService : public v1::TrainingService::CallbackService {
 public:
  // All must outlive the server.
  TrainingService(CoordinatorHost* host, AccessControl* access,
                  const TicketOffice* tickets);

  // Serves only what the store holds, for a coordinator that does not lead; the
  // other methods are left to the server's generic service. To be called before
  // the service is registered.
  void ServeStoredOnly();

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* context,
                                      const v1::CreateJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* PauseJob(grpc::CallbackServerContext* context,
                                     const v1::PauseJobRequest* request,
                                     v1::Job* response) override;
  grpc::ServerUnaryReactor* ResumeJob(grpc::CallbackServerContext* context,
                                      const v1::ResumeJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* context,
                                      const v1::DeleteJobRequest* request,
                                      v1::DeleteJobResponse* response) override;
  grpc::ServerUnaryReactor* ExplainJob(grpc::CallbackServerContext* context,
                                       const v1::ExplainJobRequest* request,
                                       v1::JobExplanation* response) override;
  grpc::ServerUnaryReactor* GetWorker(grpc::CallbackServerContext* context,
                                      const v1::GetWorkerRequest* request,
                                      v1::WorkerSummary* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context,
                                        const v1::DrainWorkerRequest* request,
                                        v1::WorkerSummary* response) override;
  grpc::ServerUnaryReactor* ResumeWorker(grpc::CallbackServerContext* context,
                                         const v1::ResumeWorkerRequest* request,
                                         v1::WorkerSummary* response) override;
  grpc::ServerUnaryReactor* DeleteWorker(
      grpc::CallbackServerContext* context,
      const v1::DeleteWorkerRequest* request,
      v1::DeleteWorkerResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* context,
      const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* ReadSeries(grpc::CallbackServerContext* context,
                                       const v1::ReadSeriesRequest* request,
                                       v1::JobSeries* response) override;
  grpc::ServerWriteReactor<v1::ReadLogResponse>* ReadLog(
      grpc::CallbackServerContext* context,
      const v1::ReadLogRequest* request) override;
  grpc::ServerWriteReactor<v1::DownloadArtifactResponse>* DownloadArtifact(
      grpc::CallbackServerContext* context,
      const v1::DownloadArtifactRequest* request) override;
  grpc::ServerUnaryReactor* ListWorkers(
      grpc::CallbackServerContext* context,
      const v1::ListWorkersRequest* request,
      v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const v1::GetServerInfoRequest* request,
      v1::ServerInfo* response) override;

 private:
  // The job as readers see it. InvalidArgument: this is no job's name.
  // NotFound. PermissionDenied: the caller may not see it.
  absl::StatusOr<JobDirectory::Entry> FindVisible(const std::string& name,
                                                  const Caller& caller) const;

  // The caller of a stream, which counts as open while it is held.
  absl::StatusOr<std::shared_ptr<const Caller>> OpenStream(
      const grpc::CallbackServerContext& context);
  // Resumes the job unless it has a program that the caller may no longer run.
  void CheckMayRunAgain(const std::string& name, const UnaryCall<v1::Job>& call,
                        std::function<void()> resume);
  // Checks the job's datasets, then answers with its spec and with what would
  // become of it.
  // ResourceExhausted: QueryPlaces::Take.
  absl::Status ForecastJob(const PreparedJob& job,
                           const UnaryCall<v1::Job>& call);
  // Takes out the names of jobs that the caller may not see, and counts them.
  // On the loop.
  void HideJobs(const Caller& caller, v1::WorkerSummary* worker) const;
  // Runs `change`, which answers the call, if the job is the caller's or the
  // caller administers its queue; else refuses.
  void ChangeOwnJob(const std::string& name, const UnaryCall<v1::Job>& call,
                    std::function<void()> change);

  CoordinatorHost* const host_;
  AccessControl* const access_;
  const TicketOffice* const tickets_;
  SeriesReader series_;
  // Places for what needs a pass of the scheduler: explanations and forecasts.
  QueryPlaces passes_;
  // Runs lists, which take some milliseconds each.
  EventLoop lists_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_API_TRAINING_SERVICE_H_
