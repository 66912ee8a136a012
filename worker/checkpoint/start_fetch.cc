// Downloads the checkpoint that a job starts from, with back-off between tries.

#include "worker/checkpoint/start_fetch.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "common/backoff.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "proto/resource_names.h"
#include "worker/checkpoint/call_watch.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/files/open_folder.h"
#include "worker/files/plain_file.h"
#include "worker/report/growing_file.h"

namespace comera::worker {
namespace {

// Larger files are taken for a mistake of whoever sends them.
constexpr int64_t kMaxBytes = int64_t{1} << 46;
// How long an abandoned fetch may go on waiting.
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

// Appends the rest of the checkpoint's file to what has come of it. `local`
// gets an error of this machine.
absl::Status Download(const StartFetchOptions& options,
                      const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& checkpoint,
                      const std::atomic<bool>& abandoned,
                      const std::function<void(int64_t)>& on_progress,
                      GrowingFile* file, absl::Status* local) {
  const auto stub = v1::TrainingService::NewStub(channel);
  grpc::ClientContext context;
  v1::DownloadArtifactRequest request;
  request.set_name(checkpoint);
  request.set_path(kTrainingStateFile);
  request.set_offset(file->size());
  TransferLimits limits;
  limits.idle = options.idle;
  limits.abandoned = &abandoned;
  // Begins before the call, which blocks until the coordinator is connected.
  CallWatch watch(&context, limits);
  auto reader = stub->DownloadArtifact(&context, request);
  v1::DownloadArtifactResponse part;
  absl::Status broken;
  while (broken.ok() && reader->Read(&part)) {
    // Empty parts are no progress.
    if (!part.data().empty()) watch.Touch();
    if (part.offset() != file->size() ||
        static_cast<int64_t>(part.data().size()) > kMaxBytes - file->size()) {
      broken = absl::DataLossError("the coordinator sends another file");
      break;
    }
    broken = *local = file->Append(part.data());
    if (on_progress && !part.data().empty()) on_progress(file->size());
  }
  if (!broken.ok()) context.TryCancel();
  const absl::Status status = watch.Explain(FromGrpcStatus(reader->Finish()));
  return broken.ok() ? status : broken;
}

// DataLoss: the file is damaged.
absl::Status Verify(const GrowingFile& file,
                    const std::atomic<bool>& abandoned) {
  ASSIGN_OR_RETURN(PlainFile contents, file.Contents());
  const CheckpointFile whole(std::move(contents));
  return whole.Verify(nullptr, [&](std::string_view) {
    return abandoned ? absl::AbortedError("abandoned") : absl::OkStatus();
  });
}

bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status) || absl::IsCancelled(status) ||
         absl::IsUnknown(status);
}

}  // namespace

absl::Status FetchStart(const StartFetchOptions& options,
                        const std::shared_ptr<grpc::Channel>& channel,
                        const std::string& checkpoint, const PathBelow& path,
                        const std::atomic<bool>& abandoned,
                        const std::function<void(int64_t)>& on_progress) {
  Backoff backoff(options.min_backoff, options.max_backoff);
  const auto pause = [&] {
    const absl::Time again = SteadyNow() + backoff.Next();
    while (!abandoned && SteadyNow() < again) absl::SleepFor(kPollInterval);
  };
  while (!abandoned) {
    ASSIGN_OR_RETURN(OpenFolder folder, OpenFolder::Make(path.Parent()));
    if (folder.SizeOf(path.Name())) return absl::OkStatus();
    absl::StatusOr<GrowingFile> file = GrowingFile::Open(
        std::move(folder), path.Name(), path.Name() + ".tmp.fetch");
    if (absl::IsAborted(file.status())) {
      // A fetch that was abandoned may take a moment to end.
      pause();
      continue;
    }
    RETURN_IF_ERROR(file.status());
    const int64_t before = file->size();
    absl::Status local;
    absl::Status status = Download(options, channel, checkpoint, abandoned,
                                   on_progress, &*file, &local);
    RETURN_IF_ERROR(local);
    if (abandoned) break;
    if (status.ok()) {
      status = Verify(*file, abandoned);
      if (status.ok()) return file->Commit();
      if (abandoned) break;
    }
    if (file->size() > before) backoff.Reset();
    if (absl::IsDataLoss(status) || absl::IsOutOfRange(status)) {
      RETURN_IF_ERROR(file->Reset());
      // What had come before may have been of another file.
      if (before > 0) continue;
    }
    if (!MayPass(status)) {
      file->Discard();
      return absl::Status(status.code(),
                          absl::StrCat(checkpoint, ": ", status.message()));
    }
    pause();
  }
  return absl::AbortedError("abandoned");
}

}  // namespace comera::worker
