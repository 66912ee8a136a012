// Streams a blob to a client or worker.
#include <memory>
#include <string>
#include <utility>

#include "server/dataset/dataset_service.h"
#include "server/host/caller_watch.h"
#include "server/rpc/rpc_errors.h"
#include "server/rpc/stalled_call.h"
#include "server/runtime/artifact_files.h"

namespace comera::server {
namespace {

constexpr size_t kChunkBytes = 512 << 10;

// One blob on its way out: read a piece (IO thread), write it (gRPC), read the
// next. Sends nothing more soon after its caller may call no more, and ends if
// a piece is not taken for long.
class BlobDownloadStream
    : public grpc::ServerWriteReactor<v1::DownloadBlobResponse> {
 public:
  BlobDownloadStream(DatasetCatalog* catalog,
                     grpc::CallbackServerContext* context,
                     std::shared_ptr<const Caller> caller,
                     const std::string& worker,
                     const v1::DownloadBlobRequest& request)
      : catalog_(catalog),
        context_(context),
        caller_(std::move(caller)),
        request_(request),
        watch_(&catalog->loop(), &catalog->io(), StillKnown(caller_),
               [this](const absl::Status& status) { refused_ = status; }) {
    if (worker.empty()) {
      catalog_->io().Post([this] { Begin(); });
    } else {
      catalog_->CheckNeeded(worker, request_.sha256(),
                            [this](const absl::Status& status) {
                              if (!status.ok()) return End(status);
                              Begin();
                            });
    }
  }

 private:
  void Begin() {
    const auto size = catalog_->blobs().Size(request_.sha256());
    if (!size.ok()) return End(size.status());
    v1::ArtifactFile expected;
    expected.set_path(request_.sha256());
    expected.set_sha256(request_.sha256());
    expected.set_size_bytes(*size);
    auto download = ArtifactDownload::Begin(
        catalog_->blobs().Path(request_.sha256()), expected, request_.offset());
    if (!download.ok()) return End(download.status());
    download_ = *std::move(download);
    Next();
  }

  void Next() {
    if (!refused_.ok()) return End(refused_);
    response_.set_offset(download_->offset());
    auto data = download_->Next(kChunkBytes);
    if (!data.ok()) return End(data.status());
    if (data->empty()) return End(absl::OkStatus());
    response_.set_data(*std::move(data));
    // While the write is under way, the call and its context are there.
    catalog_->slow_downloads().Await(this, [this] {
      CancelStalled(context_, catalog_->slow_downloads().limit());
    });
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    catalog_->io().Post([this, ok] {
      catalog_->slow_downloads().Forget(this);
      if (!ok) return End(absl::CancelledError("the reader is gone"));
      Next();
    });
  }

  void End(const absl::Status& status) { Finish(ToRpcStatus(status)); }

  void OnDone() override {
    catalog_->io().Post([this] { delete this; });
  }

  DatasetCatalog* const catalog_;
  grpc::CallbackServerContext* const context_;
  // Holds its user's place for a stream.
  const std::shared_ptr<const Caller> caller_;
  const v1::DownloadBlobRequest request_;
  std::unique_ptr<ArtifactDownload> download_;
  v1::DownloadBlobResponse response_;
  // On the IO thread: why the caller may have no more.
  absl::Status refused_;
  const CallerWatch watch_;
};

}  // namespace

grpc::ServerWriteReactor<v1::DownloadBlobResponse>* StartBlobDownload(
    DatasetCatalog* catalog, grpc::CallbackServerContext* context,
    std::shared_ptr<const Caller> caller, const std::string& worker,
    const v1::DownloadBlobRequest& request) {
  return new BlobDownloadStream(catalog, context, std::move(caller), worker,
                                request);
}

}  // namespace comera::server
