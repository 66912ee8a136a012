// Streams blobs from the coordinator over DownloadBlob calls that can be
// cancelled at any time.

#include "worker/data/blob_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comera/v1/dataset_service.grpc.pb.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"

namespace comera::worker {
namespace {

// How often a waiting fetch checks whether it was cancelled.
constexpr absl::Duration kPollInterval = absl::Milliseconds(200);

// One DownloadBlob call, whose waiting for messages can end early.
class Download {
 public:
  Download(grpc::Channel* channel, const v1::DownloadBlobRequest& request)
      : stub_(v1::DatasetService::NewStub(
            std::shared_ptr<grpc::Channel>(channel, [](grpc::Channel*) {}))),
        reader_(
            stub_->AsyncDownloadBlob(&context_, request, &queue_, nullptr)) {}

  // Drains the queue, so that no operation of the call is outstanding.
  ~Download() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  // Returns false if no event came in time.
  bool WaitUntil(absl::Time deadline, bool* ok) {
    void* tag = nullptr;
    return queue_.AsyncNext(&tag, ok, absl::ToChronoTime(deadline)) ==
           grpc::CompletionQueue::GOT_EVENT;
  }

  void Read() { reader_->Read(&response_, nullptr); }
  void Finish() { reader_->Finish(&status_, nullptr); }

  const v1::DownloadBlobResponse& response() const { return response_; }
  const grpc::Status& status() const { return status_; }

 private:
  const std::unique_ptr<v1::DatasetService::Stub> stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::DownloadBlobResponse>> reader_;
  v1::DownloadBlobResponse response_;
  grpc::Status status_;
};

}  // namespace

absl::Status RemoteBlobs::Fetch(const std::string& sha256, int64_t offset,
                                const std::atomic<bool>& cancelled,
                                const Sink& sink) {
  v1::DownloadBlobRequest request;
  request.set_sha256(sha256);
  request.set_offset(offset);
  Download download(channel_.get(), request);
  // Waits for the completion of the operation started last.
  const auto wait = [&](bool* ok) -> absl::Status {
    const absl::Time deadline = absl::Now() + stall_;
    while (true) {
      if (cancelled) return absl::CancelledError("the data are not wanted");
      const absl::Time now = absl::Now();
      if (now >= deadline) {
        return absl::UnavailableError(absl::StrCat(
            "the coordinator sent nothing for ", absl::FormatDuration(stall_)));
      }
      if (download.WaitUntil(std::min(deadline, now + kPollInterval), ok)) {
        return absl::OkStatus();
      }
    }
  };
  bool ok = false;
  // Waits for the call to begin.
  absl::Status status = wait(&ok);
  while (status.ok() && ok) {
    download.Read();
    status = wait(&ok);
    if (!status.ok() || !ok) break;
    if (download.response().offset() != offset) {
      return absl::DataLossError(absl::StrCat(
          "bytes from ", download.response().offset(), " came after ", offset));
    }
    status = sink(download.response().data());
    offset += static_cast<int64_t>(download.response().data().size());
  }
  if (!status.ok()) return status;
  download.Finish();
  RETURN_IF_ERROR(wait(&ok));
  status = FromGrpcStatus(download.status());
  // The coordinator's limits pass; the worker's own room is another matter,
  // which says ResourceExhausted.
  return absl::IsResourceExhausted(status)
             ? absl::UnavailableError(status.message())
             : status;
}

}  // namespace comera::worker
