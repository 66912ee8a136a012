// Calls ModelService: models and checkpoints of jobs.

#include "client/model_client.h"

#include <utility>

#include "client/service_calls.h"
#include "comera/v1/model_service.grpc.pb.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {
namespace {

constexpr int kPageSize = 500;

}  // namespace

class ModelClient::Impl : public ServiceCalls<v1::ModelService> {
 public:
  using ServiceCalls::ServiceCalls;
};

ModelClient::ModelClient(std::shared_ptr<grpc::Channel> channel,
                         const TrainingClient::Options& options)
    : impl_(std::make_unique<Impl>(std::move(channel), options)) {}

ModelClient::~ModelClient() { Stop(); }

absl::StatusOr<std::vector<v1::Model>> ModelClient::List(const Filter& filter,
                                                         int64_t limit) {
  std::vector<v1::Model> models;
  v1::ListModelsRequest request;
  request.set_page_size(kPageSize);
  request.set_job(filter.job);
  request.set_text(filter.text);
  request.set_kept(filter.kept);
  request.mutable_labels()->insert(filter.labels.begin(), filter.labels.end());
  do {
    ASSIGN_OR_RETURN(v1::ListModelsResponse page,
                     impl_->Call(&v1::ModelService::Stub::ListModels, request));
    for (v1::Model& model : *page.mutable_models()) {
      if (limit > 0 && static_cast<int64_t>(models.size()) == limit) {
        return models;
      }
      models.push_back(std::move(model));
    }
    RETURN_IF_ERROR(
        CheckPageToken(page.next_page_token(), request.page_token()));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return models;
}

absl::StatusOr<v1::Model> ModelClient::Get(const std::string& name) {
  v1::GetModelRequest request;
  request.set_name(name);
  return impl_->Call(&v1::ModelService::Stub::GetModel, request);
}

absl::Status ModelClient::Delete(const std::string& name) {
  v1::DeleteModelRequest request;
  request.set_name(name);
  int tries = 0;
  const absl::Status status =
      impl_->Call(&v1::ModelService::Stub::DeleteModel, request, &tries)
          .status();
  return DeletionStatus(status, tries);
}

absl::StatusOr<v1::Model> ModelClient::Pin(const std::string& name) {
  v1::PinModelRequest request;
  request.set_name(name);
  return impl_->Call(&v1::ModelService::Stub::PinModel, request);
}

absl::StatusOr<v1::Model> ModelClient::Unpin(const std::string& name) {
  v1::UnpinModelRequest request;
  request.set_name(name);
  return impl_->Call(&v1::ModelService::Stub::UnpinModel, request);
}

absl::StatusOr<v1::Model> ModelClient::SetAlias(const std::string& alias,
                                                const std::string& model) {
  v1::SetModelAliasRequest request;
  request.set_alias(alias);
  request.set_model(model);
  return impl_->Call(&v1::ModelService::Stub::SetModelAlias, request);
}

absl::StatusOr<v1::Model> ModelClient::GetAlias(const std::string& alias) {
  v1::GetModelAliasRequest request;
  request.set_name(alias);
  return impl_->Call(&v1::ModelService::Stub::GetModelAlias, request);
}

absl::Status ModelClient::DeleteAlias(const std::string& alias) {
  v1::DeleteModelAliasRequest request;
  request.set_name(alias);
  int tries = 0;
  const absl::Status status =
      impl_->Call(&v1::ModelService::Stub::DeleteModelAlias, request, &tries)
          .status();
  return DeletionStatus(status, tries);
}

absl::StatusOr<v1::CreateTicketResponse> ModelClient::CreateTicket(
    const v1::CreateTicketRequest& request) {
  return impl_->Call(&v1::ModelService::Stub::CreateTicket, request);
}

absl::StatusOr<std::vector<v1::Checkpoint>> ModelClient::ListCheckpoints(
    const std::string& job) {
  std::vector<v1::Checkpoint> checkpoints;
  v1::ListJobCheckpointsRequest request;
  request.set_parent(job);
  request.set_page_size(kPageSize);
  do {
    ASSIGN_OR_RETURN(
        v1::ListJobCheckpointsResponse page,
        impl_->Call(&v1::ModelService::Stub::ListJobCheckpoints, request));
    for (v1::Checkpoint& checkpoint : *page.mutable_checkpoints()) {
      checkpoints.push_back(std::move(checkpoint));
    }
    RETURN_IF_ERROR(
        CheckPageToken(page.next_page_token(), request.page_token()));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return checkpoints;
}

void ModelClient::Stop() { impl_->runner().Stop(); }

}  // namespace comera::client
