// Receives a file that a worker uploads for a job.
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/api/worker_service.h"
#include "server/rpc/rpc_errors.h"
#include "server/runtime/artifact_files.h"

namespace comera::server {
namespace {

// One file on its way in. Strictly one step after the other: read a message
// (gRPC), handle it (IO thread), read the next; at the end verify (IO thread),
// ask whether the attempt still holds (loop), publish (IO thread), tell the
// coordinator (loop). The IO thread is one, so a publication of an older
// attempt cannot overtake one of a newer.
class UploadStream : public grpc::ServerReadReactor<v1::UploadArtifactRequest> {
 public:
  UploadStream(CoordinatorHost* host, std::string worker)
      : host_(host), worker_(std::move(worker)) {
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    host_->io().Post([this, ok] { Handle(ok); });
  }

  void Handle(bool ok) {
    if (!ok) return FinishFile();
    if (request_.has_header()) {
      if (upload_ != nullptr) {
        return End(absl::InvalidArgumentError("header: sent twice"));
      }
      header_ = request_.header();
      if (absl::Status status = ValidateUpload(header_); !status.ok()) {
        return End(status);
      }
      return host_->CheckUpload(header_, worker_, [this](const absl::Status& status) {
        if (!status.ok()) return End(status);
        host_->io().Post([this] { BeginFile(); });
      });
    }
    if (upload_ == nullptr) {
      return End(absl::InvalidArgumentError("header: must come first"));
    }
    if (absl::Status status = upload_->Add(request_.data()); !status.ok()) {
      return End(status);
    }
    StartRead(&request_);
  }

  void BeginFile() {
    auto upload = ArtifactUpload::Begin(host_->data_dir(), header_);
    if (!upload.ok()) return End(upload.status());
    upload_ = *std::move(upload);
    StartRead(&request_);
  }

  void FinishFile() {
    if (upload_ == nullptr) {
      return End(absl::InvalidArgumentError("header: missing"));
    }
    if (absl::Status status = upload_->Verify(); !status.ok()) {
      return End(status);
    }
    host_->CheckUpload(header_, worker_, [this](const absl::Status& status) {
      if (!status.ok()) return End(status);
      host_->io().Post([this] { PublishFile(); });
    });
  }

  void PublishFile() {
    if (absl::Status status = upload_->Publish(); !status.ok()) {
      return End(status);
    }
    host_->ArtifactStored(header_, worker_,
                          [this](const absl::Status& status) { End(status); });
  }

  void End(const absl::Status& status) { Finish(ToRpcStatus(status)); }

  // Removes a temporary file, so not here.
  void OnDone() override {
    host_->io().Post([this] { delete this; });
  }

  CoordinatorHost* const host_;
  const std::string worker_;
  v1::UploadArtifactRequest request_;
  v1::UploadArtifactHeader header_;
  std::unique_ptr<ArtifactUpload> upload_;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadArtifactRequest>* StartUpload(
    CoordinatorHost* host, std::string worker) {
  return new UploadStream(host, std::move(worker));
}

}  // namespace comera::server
