#include "client/model_client.h"

#include <utility>

#include "client/call_runner.h"
#include "comera/v1/model_service.grpc.pb.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {
namespace {

constexpr int kPageSize = 500;

absl::Status CheckToken(const std::string& next, const std::string& asked) {
  if (!next.empty() && next == asked) {
    return absl::InternalError("the server repeats a page token");
  }
  return absl::OkStatus();
}

}  // namespace

class ModelClient::Impl {
 public:
  Impl(std::shared_ptr<grpc::Channel> channel,
       const TrainingClient::Options& options)
      : stub_(v1::ModelService::NewStub(channel)),
        runner_(options, [channel] { return channel; }) {}

  // A unary call of `method`.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(
      grpc::Status (v1::ModelService::Stub::*method)(grpc::ClientContext*,
                                                     const Request&, Response*),
      const Request& request) {
    Response response;
    RETURN_IF_ERROR(runner_.Unary([&](grpc::ClientContext* context) {
      response.Clear();
      return (stub_.get()->*method)(context, request, &response);
    }));
    return response;
  }

  CallRunner& runner() { return runner_; }

 private:
  std::unique_ptr<v1::ModelService::Stub> stub_;
  CallRunner runner_;
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
    RETURN_IF_ERROR(CheckToken(page.next_page_token(), request.page_token()));
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
  return impl_->Call(&v1::ModelService::Stub::DeleteModel, request).status();
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
    RETURN_IF_ERROR(CheckToken(page.next_page_token(), request.page_token()));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return checkpoints;
}

void ModelClient::Stop() { impl_->runner().Stop(); }

}  // namespace comera::client
