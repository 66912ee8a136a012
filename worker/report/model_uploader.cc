// Sends the files of exported models to the coordinator and retries until they
// are stored, one job's in turn with the others'.

#include "worker/report/model_uploader.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "common/grpc_status.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "proto/resource_names.h"
#include "worker/files/plain_file.h"

namespace comera::worker {
namespace {

constexpr size_t kMaxFiles = 64;
constexpr int64_t kMaxModelBytes = int64_t{64} << 30;
// The most files of an attempt that the coordinator takes, in all its models.
constexpr int kMaxFilesOfAttempt = 256;

// Whether the coordinator takes a file of this name. One that is not UTF-8
// would make the worker's calls, which name the files, unreadable.
bool IsFileName(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
           c == '_' || c == '-';
  });
}

bool IsFinal(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsNotFound(status) ||
         absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status);
}

// The folder, or nothing if there is none of that name.
absl::StatusOr<std::optional<OpenFolder>> IfThere(
    absl::StatusOr<OpenFolder> folder) {
  if (absl::IsNotFound(folder.status())) return std::nullopt;
  RETURN_IF_ERROR(folder.status());
  return std::make_optional(*std::move(folder));
}

absl::StatusOr<v1::Artifact> Describe(const std::string& job,
                                      const std::string& model,
                                      const OpenFolder& folder) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, folder.List());
  // Only plain files are a model's.
  names.erase(std::remove_if(names.begin(), names.end(),
                             [&](const std::string& name) {
                               return !folder.SizeOf(name).has_value();
                             }),
              names.end());
  if (names.empty() || names.size() > kMaxFiles) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model's folder holds ", names.size(), " files; 1 to ",
                     kMaxFiles, " are possible"));
  }
  std::sort(names.begin(), names.end());
  v1::Artifact artifact;
  artifact.set_name(absl::StrCat(job, "/models/", model));
  int64_t bytes = 0;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const PlainFile contents, PlainFile::Open(folder, name));
    // A file may claim far more than is on the disk.
    if (contents.size() > kMaxModelBytes - bytes) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the model has more than ", kMaxModelBytes >> 30, " GiB"));
    }
    bytes += contents.size();
    Sha256Stream digest;
    RETURN_IF_ERROR(contents.Read(0, [&digest](std::string_view data) {
      digest.Add(data);
      return absl::OkStatus();
    }));
    v1::ArtifactFile* file = artifact.add_files();
    file->set_path(name);
    file->set_size_bytes(contents.size());
    file->set_sha256(digest.Finish());
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
    ending_ = true;
    if (call_ != nullptr) call_->TryCancel();
    changed_.notify_all();
  }
  thread_.join();
}

void ModelUploader::Upload(const v1::MemberKey& rank, const PathBelow& folder,
                           const PathBelow& targets_folder) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back({rank, folder, targets_folder,
                    Backoff(options_.min_backoff, options_.max_backoff)});
  changed_.notify_all();
}

void ModelUploader::StopRetrying(const v1::MemberKey& rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Task& task : tasks_) {
    if (task.rank.job() == rank.job() &&
        task.rank.attempt() == rank.attempt()) {
      task.retry = false;
      task.next_try = absl::InfinitePast();
    }
  }
  changed_.notify_all();
}

void ModelUploader::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ending_) {
    const auto task = std::min_element(
        tasks_.begin(), tasks_.end(),
        [](const Task& a, const Task& b) { return a.next_try < b.next_try; });
    const absl::Time now = SteadyNow();
    if (task == tasks_.end()) {
      changed_.wait(lock);
      continue;
    }
    if (task->next_try > now) {
      changed_.wait_for(lock, absl::ToChronoMicroseconds(task->next_try - now));
      continue;
    }
    absl::StatusOr<Models> models;
    if (task->retry || task->failed.ok()) {
      lock.unlock();
      models = TryOnce(*task);
      lock.lock();
      if (ending_) return;
    } else {
      models = task->failed;
    }
    if (!models.ok()) {
      const absl::Status end = Judge(models.status(), now, &*task);
      if (end.ok()) continue;
      models = end;
    }
    const v1::MemberKey rank = task->rank;
    tasks_.erase(task);
    lock.unlock();
    on_done_(rank, models);
    lock.lock();
  }
}

absl::Status ModelUploader::Judge(const absl::Status& failed, absl::Time begin,
                                  Task* task) {
  task->failed = failed;
  if (IsFinal(failed)) return failed;
  if (!task->retry) {
    return absl::AbortedError(
        absl::StrCat("no longer wanted, and: ", failed.message()));
  }
  const absl::Time now = SteadyNow();
  absl::Duration pause = task->backoff.Next();
  // A coordinator that is away is asked again soon. What fails otherwise gets
  // at most half of the time, however long its files are.
  if (!absl::IsUnavailable(failed)) pause = std::max(pause, now - begin);
  task->next_try = now + pause;
  task->full_since = absl::IsResourceExhausted(failed)
                         ? std::min(task->full_since, now)
                         : absl::InfiniteFuture();
  if (now - task->full_since < options_.full_patience) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "there was no room for ", absl::FormatDuration(options_.full_patience),
      ": ", failed.message()));
}

absl::StatusOr<ModelUploader::Models> ModelUploader::TryOnce(const Task& task) {
  Models models;
  int files = 0;
  const auto upload = [&](const std::string& name,
                          const OpenFolder& folder) -> absl::Status {
    ASSIGN_OR_RETURN(v1::Artifact artifact,
                     Describe(task.rank.job(), name, folder));
    files += artifact.files_size();
    if (files > kMaxFilesOfAttempt) {
      return absl::FailedPreconditionError(
          absl::StrCat("the models of all targets have more than ",
                       kMaxFilesOfAttempt, " files"));
    }
    for (const v1::ArtifactFile& file : artifact.files()) {
      if (!IsFileName(file.path())) {
        return absl::FailedPreconditionError(
            absl::StrCat("a file of model ", name,
                         " has a name with other characters than letters, "
                         "digits, '.', '_' and '-'"));
      }
    }
    for (const v1::ArtifactFile& file : artifact.files()) {
      RETURN_IF_ERROR(Send(task, folder, artifact, file));
    }
    models.push_back(std::move(artifact));
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const std::optional<OpenFolder> targets,
                   IfThere(OpenFolder::Open(task.targets_folder)));
  const auto target = [&](const std::string& name)
      -> absl::StatusOr<std::optional<OpenFolder>> {
    if (!targets) return std::nullopt;
    return IfThere(targets->Child(name));
  };
  const std::string best_name = BestModelName(task.rank.attempt());
  ASSIGN_OR_RETURN(const std::optional<OpenFolder> best, target(best_name));
  if (best) {
    // The attempt was told to end; what targets there are belong to its
    // successor.
    RETURN_IF_ERROR(upload(best_name, *best));
    return models;
  }
  for (int i = 1;; ++i) {
    const std::string name = absl::StrCat("target-", i);
    ASSIGN_OR_RETURN(const std::optional<OpenFolder> folder, target(name));
    if (!folder) break;
    RETURN_IF_ERROR(upload(name, *folder));
  }
  // The state from which other jobs continue, sent beside the targets.
  ASSIGN_OR_RETURN(const std::optional<OpenFolder> early_stage,
                   target(kEarlyStageArtifact));
  if (early_stage) {
    RETURN_IF_ERROR(upload(kEarlyStageArtifact, *early_stage));
  }
  ASSIGN_OR_RETURN(const std::optional<OpenFolder> model,
                   IfThere(OpenFolder::Open(task.folder)));
  if (!model) {
    return absl::FailedPreconditionError(
        task.folder.ToString() +
        ": the member was expected to leave its model there, and did not");
  }
  RETURN_IF_ERROR(upload("final", *model));
  return models;
}

absl::Status ModelUploader::Send(const Task& task, const OpenFolder& folder,
                                 const v1::Artifact& artifact,
                                 const v1::ArtifactFile& file) {
  ASSIGN_OR_RETURN(const PlainFile contents,
                   PlainFile::Open(folder, file.path()));
  const auto stub = v1::WorkerService::NewStub(channel_);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + options_.timeout +
                                          absl::Seconds(file.size_bytes()) /
                                              options_.min_bytes_per_second));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_) return absl::AbortedError("the worker ends");
    call_ = &context;
  }
  v1::UploadArtifactResponse response;
  auto writer = stub->UploadArtifact(&context, &response);
  v1::UploadArtifactRequest request;
  request.mutable_header()->set_artifact(artifact.name());
  request.mutable_header()->set_attempt(task.rank.attempt());
  *request.mutable_header()->mutable_file() = file;
  bool going = writer->Write(request);
  absl::Status read;
  if (going) {
    const absl::Status ended = contents.Read(0, [&](std::string_view data) {
      request.set_data(std::string(data));
      going = writer->Write(request);
      return going ? absl::OkStatus() : absl::CancelledError();
    });
    // Where the call has ended, its status says why.
    if (going) read = ended;
  }
  if (!read.ok()) context.TryCancel();
  if (going && read.ok()) writer->WritesDone();
  const absl::Status status = FromGrpcStatus(writer->Finish());
  const std::lock_guard<std::mutex> lock(mutex_);
  call_ = nullptr;
  return read.ok() ? status : read;
}

}  // namespace comera::worker
