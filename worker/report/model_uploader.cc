// Sends the files of exported models to the coordinator and retries until they
// are stored.

#include "worker/report/model_uploader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "common/backoff.h"
#include "common/files.h"
#include "common/grpc_status.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 64;
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int64_t kMaxModelBytes = int64_t{64} << 30;

bool IsFinal(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsNotFound(status) ||
         absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status);
}

// A file of a model, which its member may have made anything of: no link is
// followed, nothing but a plain file is opened, and it is read in parts.
class ModelFile {
 public:
  // FailedPrecondition: it is no plain file.
  static absl::StatusOr<ModelFile> Open(const std::string& path) {
    ModelFile file(
        open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info = {};
    if (file.fd_ < 0 || fstat(file.fd_, &info) != 0) {
      return errno == ELOOP ? absl::FailedPreconditionError(path + " is a link")
                            : ErrnoStatus(errno, path);
    }
    if (!S_ISREG(info.st_mode)) {
      return absl::FailedPreconditionError(path + " is no plain file");
    }
    file.size_ = info.st_size;
    return file;
  }
  ~ModelFile() {
    if (fd_ >= 0) close(fd_);
  }
  ModelFile(ModelFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  ModelFile& operator=(ModelFile&&) = delete;

  int64_t size() const { return size_; }

  // Gives the parts to `part` until it returns false. Unavailable: it cannot be
  // read, or has become shorter.
  absl::Status Read(
      const std::function<bool(std::string_view data)>& part) const {
    std::string buffer(kChunkBytes, '\0');
    for (int64_t at = 0; at < size_;) {
      const auto wanted = static_cast<size_t>(
          std::min<int64_t>(size_ - at, static_cast<int64_t>(kChunkBytes)));
      const ssize_t count = pread(fd_, buffer.data(), wanted, at);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        return absl::UnavailableError("a model's file cannot be read");
      }
      if (!part({buffer.data(), static_cast<size_t>(count)})) break;
      at += count;
    }
    return absl::OkStatus();
  }

 private:
  explicit ModelFile(int fd) : fd_(fd) {}

  int fd_;
  int64_t size_ = 0;
};

absl::StatusOr<v1::Artifact> Describe(const std::string& job,
                                      const std::string& model,
                                      const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  // The folders above may belong to a member's user, so no link is followed.
  if (fs::is_symlink(fs::symlink_status(folder, error))) {
    return absl::FailedPreconditionError("the model's folder is a link");
  }
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->symlink_status(error).type() == fs::file_type::regular) {
      names.push_back(it->path().filename());
    }
  }
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
    ASSIGN_OR_RETURN(const ModelFile contents,
                     ModelFile::Open(absl::StrCat(folder, "/", name)));
    // A file may claim far more than is on the disk.
    if (contents.size() > kMaxModelBytes - bytes) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the model has more than ", kMaxModelBytes >> 30, " GiB"));
    }
    bytes += contents.size();
    Sha256Stream digest;
    RETURN_IF_ERROR(contents.Read([&digest](std::string_view data) {
      digest.Add(data);
      return true;
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

void ModelUploader::Upload(const v1::MemberKey& rank, const std::string& folder,
                           const std::string& targets_folder) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back({rank, folder, targets_folder, /*retry=*/true});
  changed_.notify_all();
}

void ModelUploader::StopRetrying(const v1::MemberKey& rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Task& task : tasks_) {
    if (task.rank.job() == rank.job() &&
        task.rank.attempt() == rank.attempt()) {
      task.retry = false;
    }
  }
  changed_.notify_all();
}

void ModelUploader::Loop() {
  while (true) {
    Task task;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return ending_ || !tasks_.empty();
      });
      if (ending_) return;
      task = tasks_.front();
    }
    const absl::StatusOr<Models> models = TryForever(task);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (ending_) return;
      tasks_.pop_front();
    }
    on_done_(task.rank, models);
  }
}

absl::StatusOr<ModelUploader::Models> ModelUploader::TryOnce(const Task& task) {
  Models models;
  const auto upload = [&](const std::string& name,
                          const std::string& folder) -> absl::Status {
    ASSIGN_OR_RETURN(v1::Artifact artifact,
                     Describe(task.rank.job(), name, folder));
    for (const v1::ArtifactFile& file : artifact.files()) {
      RETURN_IF_ERROR(Send(task, folder, artifact, file));
    }
    models.push_back(std::move(artifact));
    return absl::OkStatus();
  };
  const std::string best = BestModelName(task.rank.attempt());
  const std::string best_folder = absl::StrCat(task.targets_folder, "/", best);
  std::error_code missing;
  if (fs::is_directory(best_folder, missing)) {
    // The attempt was told to end; what targets there are belong to its
    // successor.
    RETURN_IF_ERROR(upload(best, best_folder));
    return models;
  }
  for (int i = 1;; ++i) {
    const std::string name = absl::StrCat("target-", i);
    const std::string folder = absl::StrCat(task.targets_folder, "/", name);
    std::error_code error;
    if (!fs::is_directory(folder, error)) break;
    RETURN_IF_ERROR(upload(name, folder));
  }
  // The state from which other jobs continue, sent beside the targets.
  const std::string early_stage =
      absl::StrCat(task.targets_folder, "/", kEarlyStageArtifact);
  std::error_code none;
  if (fs::is_directory(early_stage, none)) {
    RETURN_IF_ERROR(upload(kEarlyStageArtifact, early_stage));
  }
  RETURN_IF_ERROR(upload("final", task.folder));
  return models;
}

absl::StatusOr<ModelUploader::Models> ModelUploader::TryForever(
    const Task& task) {
  Backoff backoff(options_.min_backoff, options_.max_backoff);
  while (true) {
    absl::StatusOr<Models> models = TryOnce(task);
    if (models.ok()) return models;
    std::unique_lock<std::mutex> lock(mutex_);
    if (IsFinal(models.status())) return models.status();
    if (changed_.wait_for(lock, absl::ToChronoMilliseconds(backoff.Next()),
                          [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                            return IsLastTry();
                          })) {
      return absl::AbortedError(
          absl::StrCat("no longer wanted, and: ", models.status().message()));
    }
  }
}

absl::Status ModelUploader::Send(const Task& task, const std::string& folder,
                                 const v1::Artifact& artifact,
                                 const v1::ArtifactFile& file) {
  ASSIGN_OR_RETURN(const ModelFile contents,
                   ModelFile::Open(absl::StrCat(folder, "/", file.path())));
  const auto stub = v1::WorkerService::NewStub(channel_);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + options_.timeout));
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
    read = contents.Read([&](std::string_view data) {
      request.set_data(std::string(data));
      going = writer->Write(request);
      return going;
    });
  }
  if (!read.ok()) context.TryCancel();
  if (going && read.ok()) writer->WritesDone();
  const absl::Status status = FromGrpcStatus(writer->Finish());
  const std::lock_guard<std::mutex> lock(mutex_);
  call_ = nullptr;
  return read.ok() ? status : read;
}

}  // namespace comera::worker
