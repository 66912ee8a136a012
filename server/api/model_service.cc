#include "server/api/model_service.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "proto/resource_names.h"
#include "server/api/model_listing.h"
#include "server/rpc/rpc_errors.h"
#include "server/runtime/artifact_files.h"

namespace comera::server {
namespace {

constexpr char kConfig[] = "config.json";
constexpr int64_t kMaxConfigBytes = 8 << 20;
// RunInfo comes before any progress.
constexpr int kFirstEvents = 50;

grpc::ServerUnaryReactor* Refuse(grpc::ServerUnaryReactor* reactor,
                                 const absl::Status& status) {
  reactor->Finish(ToRpcStatus(status));
  return reactor;
}

absl::Status NoModel(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no model ", name));
}

absl::Status BadName() {
  return InvalidField("name", "must be jobs/{job}/models/{model}");
}

// On the IO thread. Nothing if the model has no such file.
absl::Status ReadConfigFile(const std::string& data_dir, v1::Model* model) {
  for (const v1::ArtifactFile& file : model->artifact().files()) {
    if (file.path() != kConfig) continue;
    if (file.size_bytes() > kMaxConfigBytes) return absl::OkStatus();
    const auto contents =
        ReadFile(ArtifactPath(data_dir, model->name(), file.path()));
    if (!contents.ok() || Sha256Hex(*contents) != file.sha256()) {
      return absl::DataLossError(
          absl::StrCat(model->name(), ": the stored ", kConfig,
                       contents.ok() ? "'s checksum differs" : " is missing"));
    }
    return AddConfig(*contents, model);
  }
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* ModelService::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
    v1::ListModelsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  host_->loop().Post([=] {
    auto models = comera::server::ListModels(
        host_->directory(), *request, [&](const v1::Job& job) {
          return caller->Check(Permission::kView, job.spec().queue()).ok();
        });
    if (models.ok()) *response = *std::move(models);
    reactor->Finish(ToRpcStatus(models.status()));
  });
  return reactor;
}

grpc::ServerUnaryReactor* ModelService::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
    v1::Model* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  const auto ids = ParseArtifactName(request->name());
  if (!ids) return Refuse(reactor, BadName());
  const auto done = [=](absl::StatusOr<v1::Model> model) {
    if (model.ok()) *response = *std::move(model);
    reactor->Finish(ToRpcStatus(model.status()));
  };
  host_->loop().Post([=, job = JobName(ids->first)] {
    const JobDirectory::Entry* entry = host_->directory().Find(job);
    if (entry == nullptr) return done(NoModel(request->name()));
    const absl::Status status =
        caller->Check(Permission::kView, entry->job->spec().queue());
    if (!status.ok()) return done(status);
    for (int i = 0; i < entry->job->models_size(); ++i) {
      if (entry->job->models(i).name() != request->name()) continue;
      return ReadEvents(ShowModel(*entry->job, i), entry->last_sequence, done);
    }
    done(NoModel(request->name()));
  });
  return reactor;
}

void ModelService::ReadEvents(v1::Model model, int64_t last, Done done) {
  StoreThread* store = host_->store();
  if (store == nullptr) {
    return done(absl::UnavailableError("the coordinator is stopping"));
  }
  const auto ids = ParseArtifactName(model.name());
  store->ReadEvents(
      JobName(ids->first), 0, last, kFirstEvents,
      [this, model = std::move(model), done = std::move(done)](
          const absl::StatusOr<std::vector<v1::JobEvent>>& events) mutable {
        if (!events.ok()) return done(events.status());
        for (const v1::JobEvent& event : *events) {
          if (!event.has_run_info()) continue;
          model.set_dense_parameters(event.run_info().dense_parameters());
        }
        ReadConfig(std::move(model), std::move(done));
      });
}

void ModelService::ReadConfig(v1::Model model, Done done) {
  host_->io().Post(
      [this, model = std::move(model), done = std::move(done)]() mutable {
        const absl::Status status = ReadConfigFile(host_->data_dir(), &model);
        if (!status.ok()) return done(status);
        done(std::move(model));
      });
}

grpc::ServerUnaryReactor* ModelService::DeleteModel(
    grpc::CallbackServerContext* context, const v1::DeleteModelRequest* request,
    v1::DeleteModelResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  const auto ids = ParseArtifactName(request->name());
  if (!ids) return Refuse(reactor, BadName());
  host_->GetJob(JobName(ids->first), [=](const absl::StatusOr<v1::Job>& job) {
    absl::Status status =
        job.ok() ? caller->CheckOwner(job->user(), job->spec().queue())
                 : NoModel(request->name());
    if (!status.ok()) return reactor->Finish(ToRpcStatus(status));
    Remove(request->name(), reactor);
  });
  return reactor;
}

void ModelService::Remove(const std::string& name,
                          grpc::ServerUnaryReactor* reactor) {
  host_->Operate<v1::Job>(
      [name](Coordinator* coordinator, absl::Time now, Effects* effects) {
        return coordinator->RemoveModel(name, now, effects);
      },
      [this, name, reactor](const absl::StatusOr<v1::Job>& job) {
        if (!job.ok()) return reactor->Finish(ToRpcStatus(job.status()));
        host_->io().Post([this, name, reactor] {
          // The folder's files are named in the job no more: what cannot be
          // removed now is of no harm.
          const std::string file =
              ArtifactPath(host_->data_dir(), name, kConfig);
          std::error_code error;
          std::filesystem::remove_all(file.substr(0, file.rfind('/')), error);
          LOG_IF(WARNING, error)
              << "model=" << name << " event=files_not_removed error=\""
              << error.message() << "\"";
          reactor->Finish(grpc::Status::OK);
        });
      });
}

grpc::ServerUnaryReactor* ModelService::ListJobCheckpoints(
    grpc::CallbackServerContext* context,
    const v1::ListJobCheckpointsRequest* request,
    v1::ListJobCheckpointsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (!ParseJobName(request->parent())) {
    return Refuse(reactor, InvalidField("parent", "must be jobs/{job}"));
  }
  host_->GetJob(request->parent(), [=](const absl::StatusOr<v1::Job>& job) {
    absl::Status status = job.status();
    if (status.ok()) {
      status = caller->Check(Permission::kView, job->spec().queue());
    }
    if (!status.ok()) return reactor->Finish(ToRpcStatus(status));
    auto checkpoints = ListCheckpoints(*job, *request);
    if (checkpoints.ok()) *response = *std::move(checkpoints);
    reactor->Finish(ToRpcStatus(checkpoints.status()));
  });
  return reactor;
}

}  // namespace comera::server
