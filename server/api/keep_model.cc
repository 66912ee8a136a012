// Serves the calls that keep models: pins and aliases.
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "server/api/model_listing.h"
#include "server/api/model_service.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

absl::Status NoModel(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no model ", name));
}

absl::Status CheckAlias(const std::string& field, const std::string& alias) {
  return IsModelAlias(alias)
             ? absl::OkStatus()
             : InvalidField(field,
                            "must be models/{name}@{alias}, both [a-z0-9-], at "
                            "most 63 long");
}

// Nobody takes an alias away from a model that is not theirs. What the
// coordinator knows counts, because the directory shows only what is stored.
template <typename Response>
absl::Status CheckHolder(const std::string& alias,
                         const Coordinator& coordinator,
                         const UnaryCall<Response>& call) {
  const v1::Job* const holder = coordinator.FindModelAlias(alias);
  return holder == nullptr ? absl::OkStatus()
                           : call.caller()->CheckOwner(holder->user(),
                                                       holder->spec().queue());
}

// Answers with the model of this name as its changed job has it.
std::function<void(absl::StatusOr<v1::Job>)> AnswerWith(
    const std::string& name, const UnaryCall<v1::Model>& call) {
  return [name, call](const absl::StatusOr<v1::Job>& job) {
    if (!job.ok()) return call.Finish(job.status());
    for (int i = 0; i < job->models_size(); ++i) {
      if (job->models(i).name() == name) return call.Finish(ShowModel(*job, i));
    }
    call.Finish(NoModel(name));
  };
}

}  // namespace

grpc::ServerUnaryReactor* ModelService::SetPinned(
    grpc::CallbackServerContext* context, const std::string& name, bool pinned,
    v1::Model* response) {
  return ServeUnary(access_, context, response, [&](const ModelCall& call) {
    const auto ids = ParseArtifactName(name);
    if (!ids) return InvalidField("name", "must be jobs/{job}/models/{model}");
    host_->GetJob(JobName(ids->first), [=](const absl::StatusOr<v1::Job>& job) {
      if (!job.ok()) return call.Finish(NoModel(name));
      const absl::Status status =
          call.caller()->CheckOwner(job->user(), job->spec().queue());
      if (!status.ok()) return call.Finish(status);
      host_->CommitThenReply<v1::Job>(
          [=](Coordinator* coordinator, absl::Time now, Effects* effects) {
            return coordinator->PinModel(name, pinned, now, effects);
          },
          AnswerWith(name, call));
    });
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ModelService::PinModel(
    grpc::CallbackServerContext* context, const v1::PinModelRequest* request,
    v1::Model* response) {
  return SetPinned(context, request->name(), /*pinned=*/true, response);
}

grpc::ServerUnaryReactor* ModelService::UnpinModel(
    grpc::CallbackServerContext* context, const v1::UnpinModelRequest* request,
    v1::Model* response) {
  return SetPinned(context, request->name(), /*pinned=*/false, response);
}

grpc::ServerUnaryReactor* ModelService::SetModelAlias(
    grpc::CallbackServerContext* context,
    const v1::SetModelAliasRequest* request, v1::Model* response) {
  return ServeUnary(access_, context, response, [&](const ModelCall& call) {
    RETURN_IF_ERROR(CheckAlias("alias", request->alias()));
    const auto ids = ParseArtifactName(request->model());
    if (!ids) return InvalidField("model", "must be jobs/{job}/models/{model}");
    host_->loop().Post([=, copy = *request, name = JobName(ids->first)] {
      const JobDirectory::Entry* entry = host_->directory().Find(name);
      if (entry == nullptr) return call.Finish(NoModel(copy.model()));
      const absl::Status status = call.caller()->CheckOwner(
          entry->job->user(), entry->job->spec().queue());
      if (!status.ok()) return call.Finish(status);
      host_->CommitThenReply<v1::Job>(
          [=](Coordinator* coordinator, absl::Time now,
              Effects* effects) -> absl::StatusOr<v1::Job> {
            RETURN_IF_ERROR(CheckHolder(copy.alias(), *coordinator, call));
            return coordinator->SetModelAlias(copy, now, effects);
          },
          AnswerWith(copy.model(), call));
    });
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ModelService::GetModelAlias(
    grpc::CallbackServerContext* context,
    const v1::GetModelAliasRequest* request, v1::Model* response) {
  return ServeUnary(access_, context, response, [&](const ModelCall& call) {
    RETURN_IF_ERROR(CheckAlias("name", request->name()));
    host_->loop().Post([=, alias = request->name()] {
      const JobDirectory::Entry* entry = host_->directory().FindAlias(alias);
      if (entry != nullptr) {
        for (const v1::Artifact& model : entry->job->models()) {
          for (const std::string& one : model.aliases()) {
            if (one == alias) return Describe(*entry, model.name(), call);
          }
        }
      }
      call.Finish(absl::NotFoundError(absl::StrCat("no alias ", alias)));
    });
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ModelService::DeleteModelAlias(
    grpc::CallbackServerContext* context,
    const v1::DeleteModelAliasRequest* request,
    v1::DeleteModelAliasResponse* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::DeleteModelAliasResponse>& call) {
        // Whoever may use no queue has no model, and need not be told which
        // aliases there are.
        RETURN_IF_ERROR(call.Check(Permission::kUse));
        RETURN_IF_ERROR(CheckAlias("name", request->name()));
        host_->CommitThenReply<v1::Job>(
            [=, alias = request->name()](
                Coordinator* coordinator, absl::Time now,
                Effects* effects) -> absl::StatusOr<v1::Job> {
              RETURN_IF_ERROR(CheckHolder(alias, *coordinator, call));
              return coordinator->RemoveModelAlias(alias, now, effects);
            },
            [call](const absl::StatusOr<v1::Job>& job) {
              call.Finish(job.status());
            });
        return absl::OkStatus();
      });
}

}  // namespace comera::server
