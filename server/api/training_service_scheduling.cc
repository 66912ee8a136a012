// Pausing, explaining, and workers' service.
#include <string>
#include <utility>

#include "proto/resource_names.h"
#include "server/api/training_service.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

constexpr size_t kMaxReasonBytes = 1024;

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

absl::Status CheckJob(const std::string& name) {
  if (ParseJobName(name)) return absl::OkStatus();
  return InvalidField("name", "must be jobs/{job}");
}

absl::Status CheckReason(const std::string& reason) {
  if (reason.size() <= kMaxReasonBytes) return absl::OkStatus();
  return InvalidField("reason", "at most 1024 bytes");
}

}  // namespace

grpc::ServerUnaryReactor* TrainingService::PauseJob(
    grpc::CallbackServerContext* context, const v1::PauseJobRequest* request,
    v1::Job* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  absl::Status status = CheckJob(request->name());
  if (status.ok()) status = CheckReason(request->reason());
  if (!status.ok()) return Refuse(reactor, status);
  WithOwnJob(request->name(), caller, reactor, [=] {
    host_->Operate<v1::Job>(
        [copy = *request](Coordinator* coordinator, absl::Time now,
                          Effects* effects) {
          return coordinator->Pause(copy, now, effects);
        },
        Finisher(reactor, response));
  });
  return reactor;
}

grpc::ServerUnaryReactor* TrainingService::ResumeJob(
    grpc::CallbackServerContext* context, const v1::ResumeJobRequest* request,
    v1::Job* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = CheckJob(request->name()); !status.ok()) {
    return Refuse(reactor, status);
  }
  WithOwnJob(request->name(), caller, reactor, [=] {
    host_->Operate<v1::Job>(
        [copy = *request](Coordinator* coordinator, absl::Time now,
                          Effects* effects) {
          return coordinator->Resume(copy, now, effects);
        },
        Finisher(reactor, response));
  });
  return reactor;
}

grpc::ServerUnaryReactor* TrainingService::ExplainJob(
    grpc::CallbackServerContext* context, const v1::ExplainJobRequest* request,
    v1::JobExplanation* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = CheckJob(request->name()); !status.ok()) {
    return Refuse(reactor, status);
  }
  host_->Ask<v1::JobExplanation>(
      [caller, name = request->name()](
          const Coordinator& coordinator,
          absl::Time now) -> absl::StatusOr<v1::JobExplanation> {
        absl::StatusOr<v1::JobExplanation> found =
            coordinator.Explain(name, now);
        if (!found.ok()) return found;
        absl::Status status = caller->Check(Permission::kView, found->queue());
        if (!status.ok()) return status;
        // Others' jobs are counted, and named to those who may see them.
        for (v1::JobAhead& ahead : *found->mutable_ahead()) {
          if (!caller->Check(Permission::kView, ahead.queue()).ok()) {
            ahead.clear_name();
          }
        }
        return found;
      },
      Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* TrainingService::GetWorker(
    grpc::CallbackServerContext* context, const v1::GetWorkerRequest* request,
    v1::WorkerSummary* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kView, "", reactor) == nullptr) {
    return reactor;
  }
  host_->Ask<v1::WorkerSummary>(
      [name = request->name()](const Coordinator& coordinator, absl::Time now) {
        return coordinator.GetWorker(name, now);
      },
      Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* TrainingService::DrainWorker(
    grpc::CallbackServerContext* context, const v1::DrainWorkerRequest* request,
    v1::WorkerSummary* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller =
      Admit(access_, *context, Permission::kAdminister, "", reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = CheckReason(request->reason()); !status.ok()) {
    return Refuse(reactor, status);
  }
  host_->Operate<v1::WorkerSummary>(
      [copy = *request](Coordinator* coordinator, absl::Time now,
                        Effects* effects) {
        return coordinator->Drain(copy, now, effects);
      },
      Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* TrainingService::ResumeWorker(
    grpc::CallbackServerContext* context,
    const v1::ResumeWorkerRequest* request, v1::WorkerSummary* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kAdminister, "", reactor) ==
      nullptr) {
    return reactor;
  }
  host_->Operate<v1::WorkerSummary>(
      [copy = *request](Coordinator* coordinator, absl::Time now,
                        Effects* effects) {
        return coordinator->ResumeWorker(copy, now, effects);
      },
      Finisher(reactor, response));
  return reactor;
}

}  // namespace comera::server
