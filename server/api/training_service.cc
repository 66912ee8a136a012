#include "server/api/training_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "proto/job_defaults.h"
#include "proto/job_validation.h"
#include "proto/resource_names.h"
#include "server/api/audited_call.h"
#include "server/api/training_streams.h"
#include "server/rpc/refused_stream.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

constexpr size_t kMaxRequestId = 64;
constexpr size_t kMaxReasonBytes = 1024;

// Finishes `reactor` with the value or the error.
template <typename T>
std::function<void(absl::StatusOr<T>)> Finisher(
    grpc::ServerUnaryReactor* reactor, T* response) {
  return [reactor, response](absl::StatusOr<T> value) {
    if (value.ok()) *response = *std::move(value);
    reactor->Finish(ToRpcStatus(value.status()));
  };
}

grpc::ServerUnaryReactor* Refuse(grpc::ServerUnaryReactor* reactor,
                                 const absl::Status& status) {
  reactor->Finish(ToRpcStatus(status));
  return reactor;
}

absl::Status CheckName(const std::string& name) {
  if (ParseJobName(name)) return absl::OkStatus();
  return InvalidField("name", "must be jobs/{job}");
}

absl::Status CheckCreate(const v1::CreateJobRequest& request) {
  const std::string& id = request.request_id();
  if (id.size() > kMaxRequestId ||
      !std::all_of(id.begin(), id.end(),
                   [](char c) { return c > ' ' && c <= '~'; })) {
    return InvalidField("request_id", "at most 64 printable ASCII characters");
  }
  if (!request.has_spec()) return InvalidField("spec", "missing");
  const std::vector<FieldViolation> violations =
      ValidateJobSpec(request.spec());
  if (!violations.empty()) return InvalidSpec(violations);
  return absl::OkStatus();
}

}  // namespace

TrainingService::TrainingService(CoordinatorHost* host, AccessControl* access)
    : host_(host),
      access_(access),
      series_(SeriesReader::Options(),
              [host](std::function<void(JobStore*)> read) {
                host->Read(std::move(read));
              }) {}

grpc::ServerUnaryReactor* TrainingService::CreateJob(
    grpc::CallbackServerContext* context, const v1::CreateJobRequest* request,
    v1::Job* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = caller->CheckSize(request->ByteSizeLong());
      !status.ok()) {
    return Refuse(reactor, status);
  }
  if (absl::Status status = CheckCreate(*request); !status.ok()) {
    return Refuse(reactor, status);
  }
  const v1::JobSpec spec = WithDefaults(request->spec());
  if (absl::Status status = caller->Check(Permission::kUse, spec.queue());
      !status.ok()) {
    return Refuse(reactor, status);
  }
  if (request->validate_only()) {
    host_->CheckDatasets(
        spec, [=, user = caller->user()](const absl::Status& status) {
          if (!status.ok()) return reactor->Finish(ToRpcStatus(status));
          *response->mutable_spec() = spec;
          host_->Ask<v1::Forecast>(
              [spec, user](const Coordinator& coordinator, absl::Time now) {
                return coordinator.Forecast(spec, user, now);
              },
              [=](absl::StatusOr<v1::Forecast> forecast) {
                if (forecast.ok()) {
                  *response->mutable_forecast() = *std::move(forecast);
                }
                reactor->Finish(ToRpcStatus(forecast.status()));
              });
        });
    return reactor;
  }
  if (absl::Status status = caller->ChargeSubmission(); !status.ok()) {
    return Refuse(reactor, status);
  }
  Submitter submitter;
  submitter.user = caller->user();
  host_->CreateJob(
      *request, Finisher(reactor, response), submitter,
      AuditJobChange(*caller, *context, "TrainingService.CreateJob"),
      caller->max_queued_jobs());
  return reactor;
}

grpc::ServerUnaryReactor* TrainingService::GetJob(
    grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
    v1::Job* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = CheckName(request->name()); !status.ok()) {
    return Refuse(reactor, status);
  }
  host_->GetJob(request->name(), [=](absl::StatusOr<v1::Job> job) {
    absl::Status status = job.status();
    if (status.ok()) {
      status = caller->Check(Permission::kView, job->spec().queue());
    }
    if (status.ok()) *response = *std::move(job);
    reactor->Finish(ToRpcStatus(status));
  });
  return reactor;
}

grpc::ServerUnaryReactor* TrainingService::ListJobs(
    grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
    v1::ListJobsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  lists_.Post([=] {
    Finisher(reactor, response)(
        host_->ListJobs(*request, [&caller](const std::string& queue) {
          return caller->Check(Permission::kView, queue).ok();
        }));
  });
  return reactor;
}

grpc::ServerUnaryReactor* TrainingService::ReadSeries(
    grpc::CallbackServerContext* context, const v1::ReadSeriesRequest* request,
    v1::JobSeries* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  absl::Status status = CheckName(request->name());
  if (status.ok()) status = CheckSeriesRequest(*request);
  if (!status.ok()) return Refuse(reactor, status);
  const std::optional<JobDirectory::Entry> entry =
      host_->FindJob(request->name());
  if (!entry) {
    return Refuse(
        reactor, absl::NotFoundError(absl::StrCat("no job ", request->name())));
  }
  status = caller->Check(Permission::kView, entry->job->spec().queue());
  if (!status.ok()) return Refuse(reactor, status);
  series_.Read(*request, entry->last_sequence, Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* TrainingService::CancelJob(
    grpc::CallbackServerContext* context, const v1::CancelJobRequest* request,
    v1::Job* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = CheckName(request->name()); !status.ok()) {
    return Refuse(reactor, status);
  }
  if (request->reason().size() > kMaxReasonBytes) {
    return Refuse(reactor, InvalidField("reason", "at most 1024 bytes"));
  }
  WithOwnJob(request->name(), caller, reactor, [=] {
    host_->CancelJob(
        request->name(), request->reason(), Finisher(reactor, response),
        AuditJobChange(*caller, *context, "TrainingService.CancelJob"));
  });
  return reactor;
}

absl::StatusOr<std::shared_ptr<const Caller>> TrainingService::OpenStream(
    const grpc::CallbackServerContext& context) {
  ASSIGN_OR_RETURN(std::unique_ptr<Caller> caller, access_->Identify(context));
  RETURN_IF_ERROR(caller->ChargeStream());
  return std::shared_ptr<const Caller>(std::move(caller));
}

void TrainingService::WithOwnJob(const std::string& name,
                                 std::shared_ptr<const Caller> caller,
                                 grpc::ServerUnaryReactor* reactor,
                                 std::function<void()> then) {
  // A job's owner and queue do not change, so what is found holds later.
  host_->GetJob(name, [=](const absl::StatusOr<v1::Job>& job) {
    absl::Status status = job.status();
    if (status.ok())
      status = caller->CheckOwner(job->user(), job->spec().queue());
    if (status.ok()) return then();
    reactor->Finish(ToRpcStatus(status));
  });
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* TrainingService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  auto caller = OpenStream(*context);
  if (!caller.ok()) return RefuseStream<v1::WatchJobResponse>(caller.status());
  return StartWatch(host_, *std::move(caller), *request);
}

grpc::ServerWriteReactor<v1::ReadLogResponse>* TrainingService::ReadLog(
    grpc::CallbackServerContext* context, const v1::ReadLogRequest* request) {
  auto caller = OpenStream(*context);
  if (!caller.ok()) return RefuseStream<v1::ReadLogResponse>(caller.status());
  return StartReadLog(host_, *std::move(caller), *request);
}

grpc::ServerWriteReactor<v1::DownloadArtifactResponse>*
TrainingService::DownloadArtifact(grpc::CallbackServerContext* context,
                                  const v1::DownloadArtifactRequest* request) {
  auto caller = OpenStream(*context);
  if (!caller.ok()) {
    return RefuseStream<v1::DownloadArtifactResponse>(caller.status());
  }
  return StartDownload(host_, *std::move(caller), *request);
}

grpc::ServerUnaryReactor* TrainingService::ListWorkers(
    grpc::CallbackServerContext* context, const v1::ListWorkersRequest* request,
    v1::ListWorkersResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kView, "", reactor) == nullptr) {
    return reactor;
  }
  host_->ListWorkers(Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* TrainingService::GetServerInfo(
    grpc::CallbackServerContext* context,
    const v1::GetServerInfoRequest* request, v1::ServerInfo* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, reactor) == nullptr) return reactor;
  response->set_version(kVersion);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace comera::server
