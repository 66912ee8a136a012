#include "worker/model_uploader.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "common/files.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "worker/backoff.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 64;
constexpr size_t kChunkBytes = size_t{1} << 20;

bool IsFinal(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsNotFound(status) ||
         absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status);
}

absl::StatusOr<v1::Artifact> Describe(const std::string& job,
                                      const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file(error)) names.push_back(it->path().filename());
  }
  if (names.empty() || names.size() > kMaxFiles) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model's folder holds ", names.size(), " files; 1 to ",
                     kMaxFiles, " are possible"));
  }
  std::sort(names.begin(), names.end());
  v1::Artifact artifact;
  artifact.set_name(absl::StrCat(job, "/models/final"));
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const std::string contents,
                     ReadFile(absl::StrCat(folder, "/", name)));
    v1::ArtifactFile* file = artifact.add_files();
    file->set_path(name);
    file->set_size_bytes(static_cast<int64_t>(contents.size()));
    file->set_sha256(Sha256Hex(contents));
  }
  return artifact;
}

}  // namespace

ModelUploader::ModelUploader(const Options& options,
                             std::shared_ptr<grpc::Channel> channel,
                             OnDone on_done)
    : options_(options),
      channel_(std::move(channel)),
      on_done_(std::move(on_done)),
      thread_([this] { Loop(); }) {}

ModelUploader::~ModelUploader() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = abandoned_ = true;
    if (call_ != nullptr) call_->TryCancel();
    changed_.notify_all();
  }
  thread_.join();
}

void ModelUploader::Upload(const v1::RankKey& rank, const std::string& folder) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back({rank, folder});
  changed_.notify_all();
}

void ModelUploader::Abandon(const v1::RankKey& rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it =
      std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& task) {
        return task.rank.job() == rank.job() &&
               task.rank.epoch() == rank.epoch();
      });
  if (it == tasks_.end()) return;
  if (it != tasks_.begin()) {
    tasks_.erase(it);
    return;
  }
  abandoned_ = true;
  if (call_ != nullptr) call_->TryCancel();
  changed_.notify_all();
}

void ModelUploader::Loop() {
  while (true) {
    Task task;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
      if (ending_) return;
      task = tasks_.front();
    }
    const absl::StatusOr<v1::Artifact> artifact = TryForever(task);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (ending_) return;
      tasks_.pop_front();
      abandoned_ = false;
    }
    on_done_(task.rank, artifact);
  }
}

absl::StatusOr<v1::Artifact> ModelUploader::TryForever(const Task& task) {
  Backoff backoff(options_.min_backoff, options_.max_backoff);
  while (true) {
    absl::StatusOr<v1::Artifact> artifact =
        Describe(task.rank.job(), task.folder);
    absl::Status status = artifact.status();
    for (int i = 0; status.ok() && i < artifact->files_size(); ++i) {
      status = Send(task, *artifact, artifact->files(i));
    }
    if (status.ok()) return artifact;
    std::unique_lock<std::mutex> lock(mutex_);
    if (abandoned_) return absl::AbortedError("abandoned");
    if (IsFinal(status)) return status;
    changed_.wait_for(lock, absl::ToChronoMilliseconds(backoff.Next()),
                      [&] { return abandoned_; });
    if (abandoned_) return absl::AbortedError("abandoned");
  }
}

absl::Status ModelUploader::Send(const Task& task, const v1::Artifact& artifact,
                                 const v1::ArtifactFile& file) {
  ASSIGN_OR_RETURN(const std::string contents,
                   ReadFile(absl::StrCat(task.folder, "/", file.path())));
  const auto stub = v1::WorkerService::NewStub(channel_);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + options_.timeout));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (abandoned_) return absl::AbortedError("abandoned");
    call_ = &context;
  }
  v1::UploadArtifactResponse response;
  auto writer = stub->UploadArtifact(&context, &response);
  v1::UploadArtifactRequest request;
  request.mutable_header()->set_artifact(artifact.name());
  request.mutable_header()->set_epoch(task.rank.epoch());
  *request.mutable_header()->mutable_file() = file;
  bool going = writer->Write(request);
  for (size_t at = 0; going && at < contents.size(); at += kChunkBytes) {
    request.set_data(contents.substr(at, kChunkBytes));
    going = writer->Write(request);
  }
  if (going) writer->WritesDone();
  const absl::Status status = FromGrpcStatus(writer->Finish());
  const std::lock_guard<std::mutex> lock(mutex_);
  call_ = nullptr;
  return status;
}

}  // namespace comera::worker
