#include "server/dataset/dataset_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/dataset_names.h"
#include "proto/resource_names.h"
#include "server/rpc/refused_stream.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

constexpr int kMaxQuery = 1000;
constexpr int kMaxLabels = 64;
constexpr size_t kMaxKeyBytes = 63;
constexpr size_t kMaxValueBytes = 255;

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

bool IsLabelKey(const std::string& key) {
  return !key.empty() && key.size() <= kMaxKeyBytes &&
         std::all_of(key.begin(), key.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
                  c == '/';
         });
}

absl::Status CheckLabels(
    const google::protobuf::Map<std::string, std::string>& labels) {
  if (labels.size() > kMaxLabels) {
    return InvalidField("labels", absl::StrCat("at most ", kMaxLabels));
  }
  for (const auto& [key, value] : labels) {
    if (!IsLabelKey(key)) {
      return InvalidField("labels", "a key is 1 to 63 of [A-Za-z0-9._/-]");
    }
    const bool plain = std::none_of(value.begin(), value.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    });
    if (value.size() > kMaxValueBytes || !plain) {
      return InvalidField(absl::StrCat("labels[", key, "]"),
                          "at most 255 bytes without control characters");
    }
  }
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* DatasetService::QueryBlobs(
    grpc::CallbackServerContext* context, const v1::QueryBlobsRequest* request,
    v1::QueryBlobsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kUse, "", reactor) == nullptr) {
    return reactor;
  }
  if (request->sha256_size() > kMaxQuery) {
    return Refuse(reactor, InvalidField("sha256", "at most 1000"));
  }
  for (int i = 0; i < request->sha256_size(); ++i) {
    if (IsSha256(request->sha256(i))) continue;
    return Refuse(reactor,
                  InvalidField(absl::StrCat("sha256[", i, "]"),
                               "must be 64 lower-case hexadecimal digits"));
  }
  catalog_->io().Post([=] {
    const BlobStore& blobs = catalog_->blobs();
    for (const std::string& sha256 : request->sha256()) {
      v1::BlobState* state = response->add_blobs();
      state->set_sha256(sha256);
      const auto size = blobs.Size(sha256);
      state->set_complete(size.ok());
      state->set_offset(size.ok() ? *size : blobs.PartialSize(sha256));
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerReadReactor<v1::UploadBlobRequest>* DatasetService::UploadBlob(
    grpc::CallbackServerContext* context, v1::UploadBlobResponse* response) {
  const auto caller = access_->Identify(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = (*caller)->Check(Permission::kUse, "");
  if (!status.ok()) return RefuseUpload<v1::UploadBlobRequest>(status);
  return StartBlobUpload(catalog_, response);
}

grpc::ServerUnaryReactor* DatasetService::CreateDataset(
    grpc::CallbackServerContext* context,
    const v1::CreateDatasetRequest* request, v1::Dataset* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  auto caller = Admit(access_, *context, Permission::kUse, "", reactor);
  if (caller == nullptr) return reactor;
  if (!IsResourceId(request->dataset_id())) {
    return Refuse(reactor,
                  InvalidField("dataset_id", "must be 1 to 63 of [a-z0-9-]"));
  }
  if (absl::Status status = CheckLabels(request->labels()); !status.ok()) {
    return Refuse(reactor, status);
  }
  catalog_->Create(*request, std::move(caller), Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* DatasetService::GetDataset(
    grpc::CallbackServerContext* context, const v1::GetDatasetRequest* request,
    v1::Dataset* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kView, "", reactor) == nullptr) {
    return reactor;
  }
  catalog_->Get(request->name(), Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* DatasetService::ListDatasets(
    grpc::CallbackServerContext* context,
    const v1::ListDatasetsRequest* request,
    v1::ListDatasetsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kView, "", reactor) == nullptr) {
    return reactor;
  }
  if (absl::Status status = CheckLabels(request->labels()); !status.ok()) {
    return Refuse(reactor, status);
  }
  catalog_->List(*request, Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* DatasetService::ListDatasetFiles(
    grpc::CallbackServerContext* context,
    const v1::ListDatasetFilesRequest* request,
    v1::ListDatasetFilesResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kView, "", reactor) == nullptr) {
    return reactor;
  }
  catalog_->ListFiles(*request, Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* DatasetService::DescribeDataset(
    grpc::CallbackServerContext* context,
    const v1::DescribeDatasetRequest* request,
    v1::DatasetDescription* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kView, "", reactor) == nullptr) {
    return reactor;
  }
  if (!request->path().empty() && !IsDatasetPath(request->path())) {
    return Refuse(reactor, InvalidField("path", "no path of a file"));
  }
  describer_->Describe(*request, Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* DatasetService::DeleteDataset(
    grpc::CallbackServerContext* context,
    const v1::DeleteDatasetRequest* request,
    v1::DeleteDatasetResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  catalog_->Delete(request->name(), std::move(caller),
                   [=](const absl::StatusOr<int64_t>& freed) {
                     if (freed.ok()) response->set_freed_bytes(*freed);
                     reactor->Finish(ToRpcStatus(freed.status()));
                   });
  return reactor;
}

grpc::ServerWriteReactor<v1::DownloadBlobResponse>*
DatasetService::DownloadBlob(grpc::CallbackServerContext* context,
                             const v1::DownloadBlobRequest* request) {
  const auto caller = access_->Identify(*context);
  absl::Status status = caller.status();
  // Workers fetch what their jobs need.
  if (status.ok() && !(*caller)->Check(Permission::kWork, "").ok()) {
    status = (*caller)->Check(Permission::kView, "");
  }
  if (status.ok() && !IsSha256(request->sha256())) {
    status = InvalidField("sha256", "must be 64 lower-case hexadecimal digits");
  }
  if (!status.ok()) return RefuseStream<v1::DownloadBlobResponse>(status);
  return StartBlobDownload(catalog_, *request);
}

}  // namespace comera::server
