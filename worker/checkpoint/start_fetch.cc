// Downloads the checkpoint that a job starts from, with back-off between tries.

#include "worker/checkpoint/start_fetch.h"

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "common/backoff.h"
#include "common/files.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"

namespace comera::worker {
namespace {

// The size limit; a training state is three times a compressed model.
constexpr size_t kMaxBytes = size_t{8} << 30;
// How long an abandoned fetch may go on waiting.
constexpr absl::Duration kPollInterval = absl::Milliseconds(50);

absl::StatusOr<std::string> Download(
    const StartFetchOptions& options,
    const std::shared_ptr<grpc::Channel>& channel,
    const std::string& checkpoint, const std::atomic<bool>& abandoned) {
  const auto stub = v1::TrainingService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
  v1::DownloadArtifactRequest request;
  request.set_name(checkpoint);
  request.set_path(kTrainingStateFile);
  auto reader = stub->DownloadArtifact(&context, request);
  std::string contents;
  v1::DownloadArtifactResponse part;
  absl::Status broken;
  while (broken.ok() && reader->Read(&part)) {
    if (abandoned) broken = absl::AbortedError("abandoned");
    if (part.offset() != static_cast<int64_t>(contents.size()) ||
        contents.size() + part.data().size() > kMaxBytes) {
      broken = absl::DataLossError("the coordinator sends another file");
    }
    contents.append(part.data());
  }
  if (!broken.ok()) context.TryCancel();
  const absl::Status status = FromGrpcStatus(reader->Finish());
  RETURN_IF_ERROR(broken);
  RETURN_IF_ERROR(status);
  return contents;
}

bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status) || absl::IsCancelled(status) ||
         absl::IsUnknown(status);
}

}  // namespace

absl::Status FetchStart(const StartFetchOptions& options,
                        const std::shared_ptr<grpc::Channel>& channel,
                        const std::string& checkpoint, const std::string& path,
                        const std::atomic<bool>& abandoned) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return absl::OkStatus();
  Backoff backoff(options.min_backoff, options.max_backoff);
  while (!abandoned) {
    const absl::StatusOr<std::string> contents =
        Download(options, channel, checkpoint, abandoned);
    if (contents.ok()) {
      RETURN_IF_ERROR(MakeDirectories(path.substr(0, path.rfind('/'))));
      return WriteFileAtomically(path, *contents);
    }
    if (!MayPass(contents.status())) {
      return absl::Status(
          contents.status().code(),
          absl::StrCat(checkpoint, ": ", contents.status().message()));
    }
    const absl::Time again = absl::Now() + backoff.Next();
    while (!abandoned && absl::Now() < again) absl::SleepFor(kPollInterval);
  }
  return absl::AbortedError("abandoned");
}

}  // namespace comera::worker
