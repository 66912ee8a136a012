// Serves the jobs' part of TrainingService: create, read, list, cancel, stream.
#include "server/api/training_service.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "google/protobuf/descriptor.h"
#include "server/api/audited_call.h"
#include "server/api/prepare_job.h"
#include "server/api/training_streams.h"
#include "server/auth/unary_call.h"
#include "server/rpc/rejected_stream.h"
#include "server/rpc/request_checks.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

// What a follower reads in the store. Logs and models are files, which the
// leader may keep for itself.
constexpr const char* kStored[] = {"GetJob", "ListJobs", "WatchJob",
                                   "ReadSeries", "GetServerInfo"};

}  // namespace

void TrainingService::ServeStoredOnly() {
  const google::protobuf::ServiceDescriptor* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
          v1::TrainingService::service_full_name());
  for (int i = 0; i < service->method_count(); ++i) {
    if (absl::c_linear_search(kStored, service->method(i)->name())) continue;
    MarkMethodGeneric(i);
  }
}

TrainingService::TrainingService(CoordinatorHost* host, AccessControl* access,
                                 const TicketOffice* tickets)
    : host_(host),
      access_(access),
      tickets_(tickets),
      series_(SeriesReader::Options(),
              [host](std::function<void(JobStore*)> read) {
                host->Read(std::move(read));
              }) {}

grpc::ServerUnaryReactor* TrainingService::CreateJob(
    grpc::CallbackServerContext* context, const v1::CreateJobRequest* request,
    v1::Job* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Job>& call) {
        const Caller& caller = *call.caller();
        RETURN_IF_ERROR(caller.CheckSize(request->ByteSizeLong()));
        ASSIGN_OR_RETURN(PreparedJob job,
                         PrepareJob(*request, {caller.user(), ""}));
        RETURN_IF_ERROR(caller.Check(Permission::kUse, job.spec().queue()));
        job.set_administers(
            caller.Check(Permission::kAdminister, job.spec().queue()).ok());
        if (request->validate_only()) return ForecastJob(job, call);
        RETURN_IF_ERROR(caller.ChargeSubmission());
        host_->CreateJob(
            job, call,
            AuditJobChange(caller, *context, "TrainingService.CreateJob"));
        return absl::OkStatus();
      });
}

absl::Status TrainingService::ForecastJob(const PreparedJob& job,
                                          const UnaryCall<v1::Job>& call) {
  ASSIGN_OR_RETURN(const std::shared_ptr<QueryPlaces::Place> place,
                   passes_.Take(call.caller()->user()));
  host_->CheckDatasets(job.spec(), [=](const absl::Status& status) {
    if (!status.ok()) {
      place->Leave();
      return call.Finish(status);
    }
    *call.response().mutable_spec() = job.spec();
    host_->RunQuery<v1::Forecast>(
        [job](const Coordinator& coordinator,
              absl::Time now) -> absl::StatusOr<v1::Forecast> {
          RETURN_IF_ERROR(coordinator.CheckMayRun(job.spec(), job.submitter()));
          return coordinator.Forecast(job.spec(), job.submitter().user, now);
        },
        [place, call](absl::StatusOr<v1::Forecast> forecast) {
          place->Leave();
          if (forecast.ok()) {
            *call.response().mutable_forecast() = *std::move(forecast);
          }
          call.Finish(forecast.status());
        });
  });
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TrainingService::GetJob(
    grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
    v1::Job* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Job>& call) {
        RETURN_IF_ERROR(CheckJobName(request->name()));
        host_->GetJob(request->name(), [call](absl::StatusOr<v1::Job> job) {
          if (!job.ok()) return call.Finish(job.status());
          const absl::Status status =
              call.Check(Permission::kView, job->spec().queue());
          if (!status.ok()) return call.Finish(status);
          call.Finish(std::move(job));
        });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TrainingService::ListJobs(
    grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
    v1::ListJobsResponse* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::ListJobsResponse>& call) {
                      lists_.Post([=] {
                        call.Finish(host_->ListJobs(
                            *request, [&call](const std::string& queue) {
                              return call.Check(Permission::kView, queue).ok();
                            }));
                      });
                      return absl::OkStatus();
                    });
}

absl::StatusOr<JobDirectory::Entry> TrainingService::FindVisible(
    const std::string& name, const Caller& caller) const {
  RETURN_IF_ERROR(CheckJobName(name));
  const std::optional<JobDirectory::Entry> entry = host_->FindJob(name);
  if (!entry) return absl::NotFoundError(absl::StrCat("no job ", name));
  RETURN_IF_ERROR(caller.Check(Permission::kView, entry->job->spec().queue()));
  return *entry;
}

grpc::ServerUnaryReactor* TrainingService::ReadSeries(
    grpc::CallbackServerContext* context, const v1::ReadSeriesRequest* request,
    v1::JobSeries* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::JobSeries>& call) {
        RETURN_IF_ERROR(CheckSeriesRequest(*request));
        ASSIGN_OR_RETURN(const JobDirectory::Entry entry,
                         FindVisible(request->name(), *call.caller()));
        series_.Read(*request, entry.last_sequence, call);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TrainingService::CancelJob(
    grpc::CallbackServerContext* context, const v1::CancelJobRequest* request,
    v1::Job* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Job>& call) {
        RETURN_IF_ERROR(CheckJobName(request->name()));
        RETURN_IF_ERROR(CheckReason(request->reason()));
        ChangeOwnJob(request->name(), call, [=] {
          host_->CancelJob(request->name(), request->reason(), call,
                           AuditJobChange(*call.caller(), *context,
                                          "TrainingService.CancelJob"));
        });
        return absl::OkStatus();
      });
}

absl::StatusOr<std::shared_ptr<const Caller>> TrainingService::OpenStream(
    const grpc::CallbackServerContext& context) {
  ASSIGN_OR_RETURN(std::unique_ptr<Caller> caller, access_->Identify(context));
  RETURN_IF_ERROR(caller->ChargeStream());
  return std::shared_ptr<const Caller>(std::move(caller));
}

void TrainingService::ChangeOwnJob(const std::string& name,
                                   const UnaryCall<v1::Job>& call,
                                   std::function<void()> change) {
  // A job's owner and queue do not change, so what is found holds later.
  host_->GetJob(name, [=](const absl::StatusOr<v1::Job>& job) {
    if (!job.ok()) return call.Finish(job.status());
    const absl::Status status =
        call.caller()->CheckOwner(job->user(), job->spec().queue());
    if (!status.ok()) return call.Finish(status);
    change();
  });
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* TrainingService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  auto caller = OpenStream(*context);
  if (!caller.ok()) return RejectStream<v1::WatchJobResponse>(caller.status());
  return StartWatch(host_, *std::move(caller), *request);
}

grpc::ServerWriteReactor<v1::ReadLogResponse>* TrainingService::ReadLog(
    grpc::CallbackServerContext* context, const v1::ReadLogRequest* request) {
  auto caller = OpenStream(*context);
  if (!caller.ok()) return RejectStream<v1::ReadLogResponse>(caller.status());
  return StartReadLog(host_, *std::move(caller), *request);
}

grpc::ServerWriteReactor<v1::DownloadArtifactResponse>*
TrainingService::DownloadArtifact(grpc::CallbackServerContext* context,
                                  const v1::DownloadArtifactRequest* request) {
  auto caller = access_->Identify(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = (*caller)->ChargeStream();
  if (status.ok()) status = (*caller)->ChargeDownload();
  if (!status.ok()) return RejectStream<v1::DownloadArtifactResponse>(status);
  return StartDownload(host_, tickets_, context, *std::move(caller), *request);
}

grpc::ServerUnaryReactor* TrainingService::GetServerInfo(
    grpc::CallbackServerContext* context,
    const v1::GetServerInfoRequest* request, v1::ServerInfo* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::ServerInfo>& call) {
                      response->set_version(kVersion);
                      call.Finish(absl::OkStatus());
                      return absl::OkStatus();
                    });
}

}  // namespace comera::server
