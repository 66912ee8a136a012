// Receives a blob, going on where an earlier upload broke off.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/dataset_names.h"
#include "server/dataset/dataset_service.h"
#include "server/host/caller_watch.h"
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
// (gRPC), handle it (IO thread), read the next. Ends soon after its caller may
// call no more: between two steps, or while it waits for a message.
class BlobUploadStream : public grpc::ServerReadReactor<v1::UploadBlobRequest> {
 public:
  BlobUploadStream(DatasetCatalog* catalog,
                   std::shared_ptr<const Caller> caller,
                   v1::UploadBlobResponse* response)
      : catalog_(catalog),
        caller_(std::move(caller)),
        response_(response),
        watch_(&catalog->loop(), &catalog->io(), StillKnown(caller_),
               [this](const absl::Status& status) { Refuse(status); }) {
    catalog_->io().Post([this] { Await(); });
    StartRead(&request_);
  }

 private:
  // While a read is under way.
  void Await() {
    catalog_->idle_uploads().Await(this, [this] {
      ended_ = true;
      End(absl::UnavailableError(
          absl::StrCat("no data came for ",
                       absl::FormatDuration(catalog_->idle_uploads().limit()),
                       ": send the rest later")));
    });
  }

  void Read() {
    if (!refused_.ok()) return End(refused_);
    reading_ = true;
    Await();
    StartRead(&request_);
  }

  void Refuse(const absl::Status& status) {
    refused_ = status;
    if (!reading_ || ended_) return;
    ended_ = true;
    catalog_->idle_uploads().Forget(this);
    End(status);
  }

  void OnReadDone(bool ok) override {
    catalog_->io().Post([this, ok] { Handle(ok); });
  }

  void Handle(bool ok) {
    reading_ = false;
    if (ended_) return;
    catalog_->idle_uploads().Forget(this);
    if (!refused_.ok()) return End(refused_);
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
    Read();
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
    catalog_->FindSender(caller_->user(), [this](BlobSender sender) {
      OpenBlob(std::move(sender));
    });
  }

  void OpenBlob(BlobSender sender) {
    const v1::UploadBlobHeader& header = request_.header();
    auto upload =
        catalog_->blobs().BeginUpload(header.sha256(), header.size_bytes(),
                                      header.offset(), std::move(sender));
    // There already: nothing needs to be sent.
    if (absl::IsAlreadyExists(upload.status())) return End(absl::OkStatus());
    if (!upload.ok()) return End(upload.status());
    upload_ = *std::move(upload);
    CatchUp();
  }

  void CatchUp() {
    const auto done = upload_->CatchUp(kCatchUpBytes);
    if (!done.ok()) return End(done.status());
    if (*done) return Read();
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
  // Holds its user's places for a stream and an upload.
  const std::shared_ptr<const Caller> caller_;
  v1::UploadBlobResponse* const response_;
  v1::UploadBlobRequest request_;
  std::unique_ptr<BlobUpload> upload_;
  int64_t size_ = 0;
  // On the IO thread: a message is awaited; why the caller may go on no more;
  // the stream has ended while it waited.
  bool reading_ = true;
  absl::Status refused_;
  bool ended_ = false;
  const CallerWatch watch_;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadBlobRequest>* StartBlobUpload(
    DatasetCatalog* catalog, std::shared_ptr<const Caller> caller,
    v1::UploadBlobResponse* response) {
  return new BlobUploadStream(catalog, std::move(caller), response);
}

}  // namespace comera::server
