// Serves the rest of TrainingService: pausing, deleting, explaining, and
// workers.
#include <memory>
#include <string>
#include <utility>

#include "common/status_macros.h"
#include "server/api/training_service.h"
#include "server/auth/unary_call.h"
#include "server/rpc/request_checks.h"

namespace comera::server {

grpc::ServerUnaryReactor* TrainingService::PauseJob(
    grpc::CallbackServerContext* context, const v1::PauseJobRequest* request,
    v1::Job* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Job>& call) {
        RETURN_IF_ERROR(CheckJobName(request->name()));
        RETURN_IF_ERROR(CheckReason(request->reason()));
        ChangeOwnJob(request->name(), call, [=] {
          host_->CommitThenReply<v1::Job>(
              [copy = *request](Coordinator* coordinator, absl::Time now,
                                Effects* effects) {
                return coordinator->Pause(copy, now, effects);
              },
              call);
        });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TrainingService::ResumeJob(
    grpc::CallbackServerContext* context, const v1::ResumeJobRequest* request,
    v1::Job* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Job>& call) {
        RETURN_IF_ERROR(CheckJobName(request->name()));
        ChangeOwnJob(request->name(), call, [=] {
          CheckMayRunAgain(request->name(), call, [=] {
            host_->ResumeJob(*request, call.caller()->user(), call);
          });
        });
        return absl::OkStatus();
      });
}

void TrainingService::CheckMayRunAgain(const std::string& name,
                                       const UnaryCall<v1::Job>& call,
                                       std::function<void()> resume) {
  host_->GetJob(name, [=](const absl::StatusOr<v1::Job>& job) {
    if (!job.ok()) return call.Finish(job.status());
    const v1::JobSpec& spec = job->spec();
    // The queue may have stopped to let its users run programs.
    if (!spec.has_program() ||
        call.Check(Permission::kAdminister, spec.queue()).ok()) {
      return resume();
    }
    host_->RunQuery<bool>(
        [queue = spec.queue()](const Coordinator& coordinator,
                               absl::Time) -> absl::StatusOr<bool> {
          RETURN_IF_ERROR(coordinator.CheckLetsUsersRunPrograms(queue));
          return true;
        },
        [=](const absl::StatusOr<bool>& may) {
          if (!may.ok()) return call.Finish(may.status());
          resume();
        });
  });
}

grpc::ServerUnaryReactor* TrainingService::DeleteJob(
    grpc::CallbackServerContext* context, const v1::DeleteJobRequest* request,
    v1::DeleteJobResponse* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::DeleteJobResponse>& call) {
        RETURN_IF_ERROR(CheckJobName(request->name()));
        host_->GetJob(request->name(), [this, call](
                                           const absl::StatusOr<v1::Job>& job) {
          if (!job.ok()) return call.Finish(job.status());
          const absl::Status status =
              call.caller()->CheckOwner(job->user(), job->spec().queue());
          if (!status.ok()) return call.Finish(status);
          host_->DeleteJob(job->name(), [call](const absl::Status& deleted) {
            call.Finish(deleted);
          });
        });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TrainingService::ExplainJob(
    grpc::CallbackServerContext* context, const v1::ExplainJobRequest* request,
    v1::JobExplanation* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::JobExplanation>& call) {
        // A job's queue does not change, so what is found holds later.
        RETURN_IF_ERROR(FindVisible(request->name(), *call.caller()).status());
        ASSIGN_OR_RETURN(const std::shared_ptr<QueryPlaces::Place> place,
                         passes_.Take(call.caller()->user()));
        host_->RunQuery<v1::JobExplanation>(
            [caller = call.caller(), name = request->name()](
                const Coordinator& coordinator,
                absl::Time now) -> absl::StatusOr<v1::JobExplanation> {
              ASSIGN_OR_RETURN(v1::JobExplanation found,
                               coordinator.Explain(name, now));
              // The jobs ahead are counted for everybody, and named to those
              // who may see them.
              for (v1::JobAhead& ahead : *found.mutable_ahead()) {
                if (!caller->Check(Permission::kView, ahead.queue()).ok()) {
                  ahead.clear_name();
                }
              }
              return found;
            },
            [place, call](absl::StatusOr<v1::JobExplanation> found) {
              place->Leave();
              call.Finish(std::move(found));
            });
        return absl::OkStatus();
      });
}

void TrainingService::HideJobs(const Caller& caller,
                               v1::WorkerSummary* worker) const {
  google::protobuf::RepeatedPtrField<std::string> visible;
  for (const std::string& job : worker->jobs()) {
    const JobDirectory::Entry* entry = host_->directory().Find(job);
    if (entry != nullptr &&
        caller.Check(Permission::kView, entry->job->spec().queue()).ok()) {
      *visible.Add() = job;
    } else {
      worker->set_other_jobs(worker->other_jobs() + 1);
    }
  }
  *worker->mutable_jobs() = std::move(visible);
}

grpc::ServerUnaryReactor* TrainingService::ListWorkers(
    grpc::CallbackServerContext* context, const v1::ListWorkersRequest* request,
    v1::ListWorkersResponse* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::ListWorkersResponse>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kView));
                      host_->ListWorkers(
                          [this, call](
                              absl::StatusOr<v1::ListWorkersResponse> workers) {
                            if (!workers.ok()) {
                              return call.Finish(workers.status());
                            }
                            for (auto& one : *workers->mutable_workers()) {
                              HideJobs(*call.caller(), &one);
                            }
                            call.Finish(std::move(workers));
                          });
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* TrainingService::GetWorker(
    grpc::CallbackServerContext* context, const v1::GetWorkerRequest* request,
    v1::WorkerSummary* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::WorkerSummary>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kView));
                      host_->RunQuery<v1::WorkerSummary>(
                          [this, call, name = request->name()](
                              const Coordinator& coordinator, absl::Time now)
                              -> absl::StatusOr<v1::WorkerSummary> {
                            ASSIGN_OR_RETURN(v1::WorkerSummary worker,
                                             coordinator.GetWorker(name, now));
                            HideJobs(*call.caller(), &worker);
                            return worker;
                          },
                          call);
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* TrainingService::DrainWorker(
    grpc::CallbackServerContext* context, const v1::DrainWorkerRequest* request,
    v1::WorkerSummary* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::WorkerSummary>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kAdminister));
                      RETURN_IF_ERROR(CheckReason(request->reason()));
                      host_->CommitThenReply<v1::WorkerSummary>(
                          [copy = *request](Coordinator* coordinator,
                                            absl::Time now, Effects* effects) {
                            return coordinator->Drain(copy, now, effects);
                          },
                          call);
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* TrainingService::ResumeWorker(
    grpc::CallbackServerContext* context,
    const v1::ResumeWorkerRequest* request, v1::WorkerSummary* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::WorkerSummary>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kAdminister));
                      host_->CommitThenReply<v1::WorkerSummary>(
                          [copy = *request](Coordinator* coordinator,
                                            absl::Time now, Effects* effects) {
                            return coordinator->ResumeWorker(copy, now,
                                                             effects);
                          },
                          call);
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* TrainingService::DeleteWorker(
    grpc::CallbackServerContext* context,
    const v1::DeleteWorkerRequest* request,
    v1::DeleteWorkerResponse* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::DeleteWorkerResponse>& call) {
        RETURN_IF_ERROR(call.Check(Permission::kAdminister));
        host_->CommitThenReply<v1::DeleteWorkerResponse>(
            [copy = *request](Coordinator* coordinator, absl::Time now,
                              Effects* effects) {
              return coordinator->DeleteWorker(copy, now, effects);
            },
            call);
        return absl::OkStatus();
      });
}

}  // namespace comera::server
