// Serves DatasetService: checks requests and hands them to the catalog.
#include "server/dataset/dataset_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"
#include "proto/resource_names.h"
#include "server/auth/unary_call.h"
#include "server/rpc/rejected_stream.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

constexpr int kMaxQuery = 1000;
constexpr int kMaxLabels = 64;
constexpr size_t kMaxKeyBytes = 63;
constexpr size_t kMaxValueBytes = 255;

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

absl::Status CheckQuery(const v1::QueryBlobsRequest& request) {
  if (request.sha256_size() > kMaxQuery) {
    return InvalidField("sha256", "at most 1000");
  }
  for (int i = 0; i < request.sha256_size(); ++i) {
    if (IsSha256(request.sha256(i))) continue;
    return InvalidField(absl::StrCat("sha256[", i, "]"),
                        "must be 64 lower-case hexadecimal digits");
  }
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* DatasetService::QueryBlobs(
    grpc::CallbackServerContext* context, const v1::QueryBlobsRequest* request,
    v1::QueryBlobsResponse* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::QueryBlobsResponse>& call) {
        RETURN_IF_ERROR(call.Check(Permission::kUse));
        RETURN_IF_ERROR(CheckQuery(*request));
        catalog_->io().Post([=] {
          const BlobStore& blobs = catalog_->blobs();
          for (const std::string& sha256 : request->sha256()) {
            v1::BlobState* state = call.response().add_blobs();
            state->set_sha256(sha256);
            const auto size = blobs.Size(sha256);
            state->set_complete(size.ok());
            state->set_offset(size.ok() ? *size : blobs.PartialSize(sha256));
          }
          call.Finish(absl::OkStatus());
        });
        return absl::OkStatus();
      });
}

grpc::ServerReadReactor<v1::UploadBlobRequest>* DatasetService::UploadBlob(
    grpc::CallbackServerContext* context, v1::UploadBlobResponse* response) {
  auto caller = access_->Identify(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = (*caller)->Check(Permission::kUse, "");
  if (status.ok()) status = (*caller)->ChargeStream();
  if (status.ok()) status = (*caller)->ChargeUpload();
  if (!status.ok()) return RejectUpload<v1::UploadBlobRequest>(status);
  return StartBlobUpload(catalog_, *std::move(caller), response);
}

grpc::ServerUnaryReactor* DatasetService::CreateDataset(
    grpc::CallbackServerContext* context,
    const v1::CreateDatasetRequest* request, v1::Dataset* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Dataset>& call) {
        RETURN_IF_ERROR(call.Check(Permission::kUse));
        if (!IsResourceId(request->dataset_id())) {
          return InvalidField("dataset_id", "must be 1 to 63 of [a-z0-9-]");
        }
        RETURN_IF_ERROR(CheckLabels(request->labels()));
        ASSIGN_OR_RETURN(auto place, call.caller()->HoldDatasetChange(
                                         request->ByteSizeLong()));
        catalog_->Create(request, call.caller(),
                         [call, place = std::move(place)](
                             const absl::StatusOr<v1::Dataset>& dataset) {
                           call.Finish(dataset);
                         });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* DatasetService::GetDataset(
    grpc::CallbackServerContext* context, const v1::GetDatasetRequest* request,
    v1::Dataset* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::Dataset>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kView));
                      catalog_->Get(request->name(), call);
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* DatasetService::ListDatasets(
    grpc::CallbackServerContext* context,
    const v1::ListDatasetsRequest* request,
    v1::ListDatasetsResponse* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::ListDatasetsResponse>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kView));
                      RETURN_IF_ERROR(CheckLabels(request->labels()));
                      catalog_->List(*request, call);
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* DatasetService::ListDatasetFiles(
    grpc::CallbackServerContext* context,
    const v1::ListDatasetFilesRequest* request,
    v1::ListDatasetFilesResponse* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::ListDatasetFilesResponse>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kView));
                      catalog_->ListFiles(*request, call);
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* DatasetService::DescribeDataset(
    grpc::CallbackServerContext* context,
    const v1::DescribeDatasetRequest* request,
    v1::DatasetDescription* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::DatasetDescription>& call) {
        RETURN_IF_ERROR(call.Check(Permission::kView));
        if (!request->path().empty() && !IsDatasetPath(request->path())) {
          return InvalidField("path", "no path of a file");
        }
        describer_->Describe(*request, call.caller()->user(), call);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* DatasetService::DeleteDataset(
    grpc::CallbackServerContext* context,
    const v1::DeleteDatasetRequest* request,
    v1::DeleteDatasetResponse* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::DeleteDatasetResponse>& call) {
        ASSIGN_OR_RETURN(auto place, call.caller()->HoldDatasetChange(
                                         request->ByteSizeLong()));
        catalog_->Delete(request->name(), call.caller(),
                         [call, place = std::move(place)](
                             const absl::StatusOr<int64_t>& freed) {
                           if (freed.ok())
                             call.response().set_freed_bytes(*freed);
                           call.Finish(freed.status());
                         });
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<v1::DownloadBlobResponse>*
DatasetService::DownloadBlob(grpc::CallbackServerContext* context,
                             const v1::DownloadBlobRequest* request) {
  auto caller = access_->Identify(*context);
  absl::Status status = caller.status();
  // Workers fetch what their jobs need, and nothing else.
  std::string worker;
  if (status.ok()) {
    if ((*caller)->Check(Permission::kWork, "").ok()) {
      worker = (*caller)->worker();
    } else {
      status = (*caller)->Check(Permission::kView, "");
    }
  }
  if (status.ok() && !IsSha256(request->sha256())) {
    status = InvalidField("sha256", "must be 64 lower-case hexadecimal digits");
  }
  if (status.ok()) status = (*caller)->ChargeStream();
  if (status.ok()) status = (*caller)->ChargeDownload();
  if (!status.ok()) return RejectStream<v1::DownloadBlobResponse>(status);
  return StartBlobDownload(catalog_, context, *std::move(caller), worker,
                           *request);
}

}  // namespace comera::server
