// Streams a file of a model or checkpoint to a client or worker.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "server/api/training_streams.h"
#include "server/host/loop_stream.h"
#include "server/runtime/artifact_files.h"

namespace comera::server {
namespace {

constexpr size_t kChunkBytes = 256 << 10;
// How long a client may take for a chunk.
constexpr absl::Duration kMaxWrite = absl::Seconds(60);

class DownloadStream : public LoopStream<v1::DownloadArtifactResponse> {
 public:
  DownloadStream(CoordinatorHost* host, const TicketOffice* tickets,
                 grpc::CallbackServerContext* context,
                 std::shared_ptr<const Caller> caller,
                 const v1::DownloadArtifactRequest& request)
      : LoopStream(host, StillKnown(caller)),
        tickets_(tickets),
        caller_(std::move(caller)),
        request_(request) {
    LimitWrites(context, kMaxWrite);
  }

 private:
  struct Chunk {
    int64_t offset = 0;
    std::string data;
  };

  std::shared_ptr<DownloadStream> Self() {
    return std::static_pointer_cast<DownloadStream>(shared_from_this());
  }

  // Finds a checkpoint's file, which workers need too.
  absl::StatusOr<v1::ArtifactFile> FindCheckpoint(const std::string& job) {
    const JobDirectory::Entry* entry = host().directory().Find(job);
    if (entry == nullptr) {
      return absl::NotFoundError(absl::StrCat("no job ", job));
    }
    const absl::Status viewer =
        caller_->Check(Permission::kView, entry->job->spec().queue());
    if (!viewer.ok()) {
      const absl::Status worker = caller_->Check(Permission::kWork, "");
      // Another coordinator leads.
      if (absl::IsUnavailable(worker)) return worker;
      if (!worker.ok()) return viewer;
      // Without a name it may be any worker (Caller::worker).
      if (!caller_->worker().empty() &&
          !host().engine().NeedsCheckpoint(caller_->worker(),
                                           request_.name())) {
        return absl::PermissionDeniedError(
            absl::StrCat("no job on ", caller_->worker(), " needs ",
                         request_.name()));
      }
    }
    for (const v1::Checkpoint& checkpoint : entry->job->checkpoints()) {
      if (checkpoint.name() == request_.name() && checkpoint.has_file() &&
          checkpoint.file().path() == request_.path()) {
        return checkpoint.file();
      }
    }
    return absl::NotFoundError(
        absl::StrCat(request_.name(), " has no file ", request_.path()));
  }

  // Whether the caller may have the model: its user, or a worker that serves it
  // to a user.
  absl::Status CheckModel(const std::string& queue) const {
    if (request_.ticket().empty()) {
      return caller_->Check(Permission::kView, queue);
    }
    RETURN_IF_ERROR(caller_->Check(Permission::kWork, ""));
    ASSIGN_OR_RETURN(const Ticket ticket,
                     tickets_->Check(TicketOffice::Purpose::kDownload,
                                     request_.ticket(), caller_->worker()));
    if (ticket.model() != request_.name()) {
      return absl::PermissionDeniedError(
          absl::StrCat("the ticket is for ", ticket.model()));
    }
    return tickets_->CheckQueue(ticket, queue);
  }

  absl::StatusOr<v1::ArtifactFile> FindFile() {
    if (const auto checkpoint = ParseCheckpointName(request_.name())) {
      artifact_ = ArtifactName(checkpoint->first, kEarlyStageArtifact);
      return FindCheckpoint(JobName(checkpoint->first));
    }
    artifact_ = request_.name();
    const auto ids = ParseArtifactName(request_.name());
    if (!ids)
      return InvalidField(
          "name",
          "must be jobs/{job}/models/{model} or jobs/{job}/checkpoints/{step}");
    const JobDirectory::Entry* entry =
        host().directory().Find(JobName(ids->first));
    if (entry == nullptr) {
      return absl::NotFoundError(absl::StrCat("no job ", JobName(ids->first)));
    }
    RETURN_IF_ERROR(CheckModel(entry->job->spec().queue()));
    for (const v1::Artifact& model : entry->job->models()) {
      if (model.name() != request_.name()) continue;
      for (const v1::ArtifactFile& file : model.files()) {
        if (file.path() == request_.path()) return file;
      }
      return absl::NotFoundError(
          absl::StrCat(request_.name(), " has no file ", request_.path()));
    }
    return absl::NotFoundError(absl::StrCat("no artifact ", request_.name()));
  }

  void Begin() override {
    absl::StatusOr<v1::ArtifactFile> file = FindFile();
    if (!file.ok()) return End(file.status());
    file_ = *std::move(file);
    listener_ = host().AddListener("", [weak = std::weak_ptr(Self())] {
      if (auto self = weak.lock()) self->Wake();
    });
  }

  void Next() override {
    if (reading_) return;
    reading_ = true;
    host().io().Post([self = Self()] {
      auto chunk = self->Read();
      self->host().loop().Post([self, chunk = std::move(chunk)] {
        self->reading_ = false;
        self->Take(chunk);
      });
    });
  }

  // On the IO thread, one at a time.
  absl::StatusOr<Chunk> Read() {
    if (download_ == nullptr) {
      const std::string path =
          ArtifactPath(host().data_dir(), artifact_, file_.path());
      auto download = ArtifactDownload::Begin(path, file_, request_.offset());
      if (!download.ok()) return download.status();
      download_ = *std::move(download);
    }
    Chunk chunk;
    chunk.offset = download_->offset();
    auto data = download_->Next(kChunkBytes);
    if (!data.ok()) return data.status();
    chunk.data = *std::move(data);
    return chunk;
  }

  void Take(const absl::StatusOr<Chunk>& chunk) {
    if (ended()) return;
    if (!chunk.ok()) return End(chunk.status());
    if (chunk->data.empty()) return End(absl::OkStatus());
    v1::DownloadArtifactResponse response;
    response.set_offset(chunk->offset);
    response.set_data(chunk->data);
    Write(std::move(response));
  }

  void Close() override {
    if (listener_ != 0) host().RemoveListener("", listener_);
  }

  const TicketOffice* const tickets_;
  const std::shared_ptr<const Caller> caller_;
  const v1::DownloadArtifactRequest request_;
  // Under which the file is stored.
  std::string artifact_;
  v1::ArtifactFile file_;
  std::unique_ptr<ArtifactDownload> download_;
  int64_t listener_ = 0;
  bool reading_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::DownloadArtifactResponse>* StartDownload(
    CoordinatorHost* host, const TicketOffice* tickets,
    grpc::CallbackServerContext* context, std::shared_ptr<const Caller> caller,
    const v1::DownloadArtifactRequest& request) {
  return DownloadStream::Start(std::make_shared<DownloadStream>(
      host, tickets, context, std::move(caller), request));
}

}  // namespace comera::server
