// Implements TrainingClient's streams: events, logs, downloads, backups.
#include <memory>

#include "client/artifact_file.h"
#include "client/training_client_impl.h"
#include "comera/v1/backup_service.grpc.pb.h"
#include "common/status_macros.h"

namespace comera::client {

absl::StatusOr<v1::Job> TrainingClient::Watch(const std::string& name,
                                              const WatchOptions& options,
                                              const JobCallback& on_job,
                                              const EventCallback& on_event) {
  int64_t last = options.after_sequence;
  bool final = false;
  const auto handle = [&](const v1::WatchJobResponse& response) {
    if (response.has_job()) {
      final = IsFinal(response.job().state());
      if (on_job) on_job(response.job());
      return;
    }
    const v1::JobEvent& event = response.event();
    // A notice of lost events has no sequence number of its own.
    const bool numbered = event.sequence() > 0;
    if (numbered && event.sequence() <= last) return;
    if (numbered) last = event.sequence();
    if (event.has_state_change()) {
      // A job that was resumed has ended before.
      final = IsFinal(event.state_change().state());
    }
    if (on_event) on_event(event);
  };
  RETURN_IF_ERROR(impl_->runner().Stream(
      options.deadline, [&](grpc::ClientContext* context) {
        v1::WatchJobRequest request;
        request.set_name(name);
        request.set_after_sequence(last);
        const auto stub = impl_->stub().Get();
        auto reader = stub->WatchJob(context, request);
        CallRunner::StreamEnd end;
        v1::WatchJobResponse response;
        const auto known = [&] {
          return options.until_sequence > 0 && last >= options.until_sequence;
        };
        while (!known() && reader->Read(&response)) {
          end.progressed = true;
          handle(response);
        }
        if (known()) {
          context->TryCancel();
          end.done = true;
        }
        end.status = reader->Finish();
        if (end.done) return end;
        impl_->stub().Observe(end.status);
        // Only a stream that the server ended has sent everything.
        end.done = end.status.ok() && final;
        return end;
      }));
  return Get(name);
}

absl::Status TrainingClient::ReadLog(
    const std::string& name, const LogOptions& options,
    const std::function<void(const std::string&)>& sink) {
  v1::ReadLogRequest request;
  request.set_name(name);
  request.set_rank(options.rank);
  request.set_attempt(options.attempt);
  request.set_offset(options.offset);
  request.set_follow(options.follow);
  return impl_->runner().Stream(
      absl::InfiniteFuture(), [&](grpc::ClientContext* context) {
        const auto stub = impl_->stub().Get();
        auto reader = stub->ReadLog(context, request);
        CallRunner::StreamEnd end;
        v1::ReadLogResponse response;
        while (reader->Read(&response)) {
          end.progressed = true;
          // Stays with this attempt: the offset means nothing in a newer one's
          // log.
          if (response.attempt() > 0) request.set_attempt(response.attempt());
          // Drops the bytes that came before a disconnect.
          const int64_t known = request.offset() - response.offset();
          const int64_t size = response.data().size();
          if (known >= size) continue;
          sink(known > 0 ? response.data().substr(known) : response.data());
          request.set_offset(response.offset() + size);
        }
        end.status = reader->Finish();
        impl_->stub().Observe(end.status);
        // A quiet log may bring nothing for a stream's whole lifetime.
        end.progressed |=
            end.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
        end.done = end.status.ok();
        return end;
      });
}

absl::Status TrainingClient::DownloadArtifact(const std::string& artifact,
                                              const v1::ArtifactFile& file,
                                              const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ArtifactFileWriter> writer,
                   ArtifactFileWriter::Create(path, file));
  absl::Status write_status;
  RETURN_IF_ERROR(impl_->runner().Stream(
      absl::InfiniteFuture(), [&](grpc::ClientContext* context) {
        v1::DownloadArtifactRequest request;
        request.set_name(artifact);
        request.set_path(file.path());
        request.set_offset(writer->size());
        const auto stub = impl_->stub().Get();
        auto reader = stub->DownloadArtifact(context, request);
        CallRunner::StreamEnd end;
        v1::DownloadArtifactResponse response;
        while (write_status.ok() && reader->Read(&response)) {
          end.progressed = !response.data().empty();
          write_status = writer->Append(response.offset(), response.data());
        }
        if (!write_status.ok()) {
          context->TryCancel();
          end.done = true;
        }
        end.status = reader->Finish();
        impl_->stub().Observe(end.status);
        end.done |= end.status.ok();
        return end;
      }));
  RETURN_IF_ERROR(write_status);
  return writer->Finish();
}

absl::Status TrainingClient::CreateBackup(const std::string& path) {
  absl::Status write_status;
  RETURN_IF_ERROR(impl_->runner().Stream(
      absl::InfiniteFuture(), [&](grpc::ClientContext* context) {
        // Each try gets a copy of its own moment, so it starts a new file.
        std::unique_ptr<ArtifactFileWriter> writer;
        const auto stub = v1::BackupService::NewStub(impl_->stub().Channel());
        auto reader = stub->CreateBackup(context, v1::CreateBackupRequest());
        CallRunner::StreamEnd end;
        v1::CreateBackupResponse response;
        while (write_status.ok() && reader->Read(&response)) {
          if (writer != nullptr) {
            write_status = writer->Append(writer->size(), response.data());
            continue;
          }
          v1::ArtifactFile file;
          file.set_path(path);
          file.set_size_bytes(response.size_bytes());
          file.set_sha256(response.sha256());
          // It holds the jobs of all users, the audit log and hashes of tokens.
          auto created = ArtifactFileWriter::Create(
              path, file, ArtifactFileWriter::Readers::kOwner);
          write_status = created.status();
          if (created.ok()) writer = *std::move(created);
        }
        if (!write_status.ok()) context->TryCancel();
        end.status = reader->Finish();
        impl_->stub().Observe(end.status);
        end.done = end.status.ok() || !write_status.ok();
        if (end.status.ok() && write_status.ok()) {
          write_status = writer == nullptr
                             ? absl::DataLossError("the server sent nothing")
                             : writer->Finish();
        }
        return end;
      }));
  return write_status;
}

}  // namespace comera::client
