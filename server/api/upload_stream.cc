// Receives a file that a worker uploads for a job.
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/api/worker_service.h"
#include "server/host/model_uploads.h"
#include "server/host/caller_watch.h"
#include "server/rpc/rpc_errors.h"
#include "server/runtime/artifact_files.h"

namespace comera::server {
namespace {

// One file on its way in. Strictly one step after the other: read a message
// (gRPC), handle it (IO thread), read the next; at the end verify (IO thread),
// ask whether the attempt still holds (loop), publish (IO thread), tell the
// coordinator (loop). The IO thread is one, so a publication of an older
// attempt cannot overtake one of a newer. Ends soon after its caller may call no
// more, while it waits for a message or when it would read the next.
class UploadStream : public grpc::ServerReadReactor<v1::UploadArtifactRequest> {
 public:
  UploadStream(CoordinatorHost* host, std::shared_ptr<const Caller> caller)
      : host_(host),
        worker_(caller->worker()),
        watch_(&host->loop(), &host->io(), StillKnown(std::move(caller)),
               [this](const absl::Status& status) { Refuse(status); }) {
    host_->io().Post([this] { Await(); });
    StartRead(&request_);
  }

 private:
  // On the IO thread, while a read is under way.
  void Await() {
    host_->idle_uploads().Await(this, [this] {
      ended_ = true;
      End(absl::UnavailableError(
          absl::StrCat("no data came for ",
                       absl::FormatDuration(host_->idle_uploads().limit()))));
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
    host_->idle_uploads().Forget(this);
    End(status);
  }

  void OnReadDone(bool ok) override {
    host_->io().Post([this, ok] { Handle(ok); });
  }

  void Handle(bool ok) {
    reading_ = false;
    if (ended_) return;
    host_->idle_uploads().Forget(this);
    if (!refused_.ok()) return End(refused_);
    if (!ok) return FinishFile();
    if (request_.has_header()) {
      if (upload_ != nullptr) {
        return End(absl::InvalidArgumentError("header: sent twice"));
      }
      header_ = request_.header();
      if (absl::Status status = ValidateUpload(header_); !status.ok()) {
        return End(status);
      }
      return host_->CheckUpload(header_, worker_,
                                [this](const absl::StatusOr<UploadRoom>& room) {
                                  if (!room.ok()) return End(room.status());
                                  host_->io().Post([this, room = *room] {
                                    room_ = room;
                                    BeginFile();
                                  });
                                });
    }
    if (upload_ == nullptr) {
      return End(absl::InvalidArgumentError("header: must come first"));
    }
    const auto bytes = static_cast<int64_t>(request_.data().size());
    absl::Status status = host_->model_uploads().Add(room_, bytes);
    if (!status.ok()) return End(status);
    received_ += bytes;
    status = upload_->Add(request_.data());
    if (!status.ok()) return End(status);
    Read();
  }

  void BeginFile() {
    // What cannot fit need not be sent.
    const absl::Status status =
        host_->model_uploads().Check(room_, header_.file().size_bytes());
    if (!status.ok()) return End(status);
    auto upload = ArtifactUpload::Begin(host_->data_dir(), header_);
    if (!upload.ok()) return End(upload.status());
    upload_ = *std::move(upload);
    Read();
  }

  void FinishFile() {
    if (upload_ == nullptr) {
      return End(absl::InvalidArgumentError("header: missing"));
    }
    if (absl::Status status = upload_->Verify(); !status.ok()) {
      return End(status);
    }
    host_->CheckUpload(header_, worker_,
                       [this](const absl::StatusOr<UploadRoom>& room) {
                         if (!room.ok()) return End(room.status());
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
    host_->io().Post([this] {
      host_->model_uploads().Remove(room_.user, received_);
      delete this;
    });
  }

  CoordinatorHost* const host_;
  const std::string worker_;
  v1::UploadArtifactRequest request_;
  v1::UploadArtifactHeader header_;
  UploadRoom room_;
  std::unique_ptr<ArtifactUpload> upload_;
  // Counted by model_uploads().
  int64_t received_ = 0;
  // On the IO thread: a message is awaited; why the caller may go on no more;
  // the stream has ended while it waited.
  bool reading_ = true;
  absl::Status refused_;
  bool ended_ = false;
  const CallerWatch watch_;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadArtifactRequest>* StartUpload(
    CoordinatorHost* host, std::shared_ptr<const Caller> caller) {
  return new UploadStream(host, std::move(caller));
}

}  // namespace comera::server
