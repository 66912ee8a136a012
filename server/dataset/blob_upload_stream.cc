// Receives a blob, going on where an earlier upload broke off.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/dataset_names.h"
#include "server/dataset/dataset_service.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

// How much of what was there before is hashed between two turns of other
// uploads.
constexpr int64_t kCatchUpBytes = 16 << 20;

absl::Status CheckHeader(const v1::UploadBlobHeader& header) {
  if (!IsSha256(header.sha256())) {
    return absl::InvalidArgumentError(
        "header.sha256: must be 64 lower-case hexadecimal digits");
  }
  if (header.size_bytes() < 0) {
    return absl::InvalidArgumentError(
        "header.size_bytes: must not be negative");
  }
  if (header.offset() < 0 || header.offset() > header.size_bytes()) {
    return absl::InvalidArgumentError("header.offset: must be 0 to size_bytes");
  }
  return absl::OkStatus();
}

// One blob on its way in. Strictly one step after the other: read a message
// (gRPC), handle it (IO thread), read the next.
class BlobUploadStream : public grpc::ServerReadReactor<v1::UploadBlobRequest> {
 public:
  BlobUploadStream(DatasetCatalog* catalog, v1::UploadBlobResponse* response)
      : catalog_(catalog), response_(response) {
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    catalog_->io().Post([this, ok] { Handle(ok); });
  }

  void Handle(bool ok) {
    if (!ok) return FinishBlob();
    if (request_.has_header()) {
      if (upload_ != nullptr) {
        return End(absl::InvalidArgumentError("header: sent twice"));
      }
      return BeginBlob();
    }
    if (upload_ == nullptr) {
      return End(absl::InvalidArgumentError("header: must come first"));
    }
    if (absl::Status status = upload_->Add(request_.data()); !status.ok()) {
      return End(status);
    }
    StartRead(&request_);
  }

  void BeginBlob() {
    const v1::UploadBlobHeader& header = request_.header();
    if (absl::Status status = CheckHeader(header); !status.ok()) {
      return End(status);
    }
    if (absl::Status status = catalog_->CheckWritable(); !status.ok()) {
      return End(status);
    }
    size_ = header.size_bytes();
    auto upload = catalog_->blobs().BeginUpload(
        header.sha256(), header.size_bytes(), header.offset());
    // There already: nothing needs to be sent.
    if (absl::IsAlreadyExists(upload.status())) return End(absl::OkStatus());
    if (!upload.ok()) return End(upload.status());
    upload_ = *std::move(upload);
    CatchUp();
  }

  void CatchUp() {
    const auto done = upload_->CatchUp(kCatchUpBytes);
    if (!done.ok()) return End(done.status());
    if (*done) return StartRead(&request_);
    catalog_->io().Post([this] { CatchUp(); });
  }

  void FinishBlob() {
    if (upload_ == nullptr) {
      return End(absl::InvalidArgumentError("header: missing"));
    }
    End(upload_->Finish());
  }

  void End(const absl::Status& status) {
    if (status.ok()) response_->set_size_bytes(size_);
    // Another try may begin as soon as this one is told to have ended.
    upload_.reset();
    Finish(ToRpcStatus(status));
  }

  void OnDone() override {
    catalog_->io().Post([this] { delete this; });
  }

  DatasetCatalog* const catalog_;
  v1::UploadBlobResponse* const response_;
  v1::UploadBlobRequest request_;
  std::unique_ptr<BlobUpload> upload_;
  int64_t size_ = 0;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadBlobRequest>* StartBlobUpload(
    DatasetCatalog* catalog, v1::UploadBlobResponse* response) {
  return new BlobUploadStream(catalog, response);
}

}  // namespace comera::server
