// Serves ModelService: models and checkpoints that jobs have stored.
#include "server/api/model_service.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "proto/resource_names.h"
#include "server/api/model_listing.h"
#include "server/auth/unary_call.h"
#include "server/host/commit.h"
#include "server/rpc/rejected_stream.h"
#include "server/rpc/rpc_errors.h"
#include "server/runtime/artifact_files.h"

namespace comera::server {
namespace {

constexpr char kConfig[] = "config.json";
constexpr int64_t kMaxConfigBytes = 8 << 20;
// RunInfo comes before any progress.
constexpr int kFirstEvents = 50;

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
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::ListModelsResponse>& call) {
        lists_.Post([=] {
          call.Finish(comera::server::ListModels(
              host_->directory(), *request, [&](const v1::Job& job) {
                return call.Check(Permission::kView, job.spec().queue()).ok();
              }));
        });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ModelService::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
    v1::Model* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Model>& call) {
        const auto ids = ParseArtifactName(request->name());
        if (!ids) return BadName();
        host_->loop().Post([=, job = JobName(ids->first)] {
          const JobDirectory::Entry* entry = host_->directory().Find(job);
          if (entry == nullptr) return call.Finish(NoModel(request->name()));
          Describe(*entry, request->name(), call);
        });
        return absl::OkStatus();
      });
}

void ModelService::Describe(const JobDirectory::Entry& entry,
                            const std::string& name, const ModelCall& call) {
  const absl::Status status =
      call.Check(Permission::kView, entry.job->spec().queue());
  if (!status.ok()) return call.Finish(status);
  for (int i = 0; i < entry.job->models_size(); ++i) {
    if (entry.job->models(i).name() != name) continue;
    return ReadEvents(ShowModel(*entry.job, i), entry.last_sequence, call);
  }
  call.Finish(NoModel(name));
}

void ModelService::ReadEvents(v1::Model model, int64_t last, Done done) {
  StoreThread* store = host_->store();
  if (store == nullptr) {
    return done(StoppingError());
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
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::DeleteModelResponse>& call) {
        const auto ids = ParseArtifactName(request->name());
        if (!ids) return BadName();
        host_->GetJob(
            JobName(ids->first), [=](const absl::StatusOr<v1::Job>& job) {
              if (!job.ok()) return call.Finish(NoModel(request->name()));
              const absl::Status status =
                  call.caller()->CheckOwner(job->user(), job->spec().queue());
              if (!status.ok()) return call.Finish(status);
              Remove(request->name(),
                     [call](const absl::Status& s) { call.Finish(s); });
            });
        return absl::OkStatus();
      });
}

void ModelService::Remove(const std::string& name,
                          std::function<void(const absl::Status&)> done) {
  host_->RemoveModel(name, [this, name,
                            done](const absl::StatusOr<v1::Job>& job) {
    if (!job.ok()) return done(job.status());
    host_->io().Post([this, name, done] {
      // The job names the folder's files no more, so what cannot be removed
      // now does no harm.
      const std::string file = ArtifactPath(host_->data_dir(), name, kConfig);
      std::error_code error;
      std::filesystem::remove_all(file.substr(0, file.rfind('/')), error);
      LOG_IF(WARNING, error)
          << "model=" << name << " event=files_not_removed error=\""
          << error.message() << "\"";
      done(absl::OkStatus());
    });
  });
}

grpc::ServerWriteReactor<v1::GenerateResponse>* ModelService::TryGenerate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  auto caller = access_->Identify(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = (*caller)->ChargeStream();
  if (!status.ok()) return RejectStream<v1::GenerateResponse>(status);
  return StartGenerate(host_, tickets_, texts_, running_texts_,
                       std::shared_ptr<const Caller>(*std::move(caller)),
                       *request);
}

grpc::ServerUnaryReactor* ModelService::ListJobCheckpoints(
    grpc::CallbackServerContext* context,
    const v1::ListJobCheckpointsRequest* request,
    v1::ListJobCheckpointsResponse* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::ListJobCheckpointsResponse>& call) {
        if (!ParseJobName(request->parent())) {
          return InvalidField("parent", "must be jobs/{job}");
        }
        host_->GetJob(request->parent(),
                      [=](const absl::StatusOr<v1::Job>& job) {
                        if (!job.ok()) return call.Finish(job.status());
                        const absl::Status status =
                            call.Check(Permission::kView, job->spec().queue());
                        if (!status.ok()) return call.Finish(status);
                        call.Finish(ListCheckpoints(*job, *request));
                      });
        return absl::OkStatus();
      });
}

}  // namespace comera::server
