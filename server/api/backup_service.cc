// Serves BackupService: copies the store on a thread of its own and streams the
// copy.
#include "server/api/backup_service.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "server/host/loop_stream.h"
#include "server/rpc/rejected_stream.h"
#include "server/runtime/file_handle.h"

namespace comera::server {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

// The copy on this side's disk; removed with its owner.
class BackupFile {
 public:
  explicit BackupFile(const std::string& data_dir)
      : folder_(absl::StrCat(data_dir, "/backups")),
        path_(absl::StrCat(folder_, "/online.sqlite")) {}
  ~BackupFile() { unlink(path_.c_str()); }

  absl::Status Create(JobStore* store) {
    RETURN_IF_ERROR(MakeDirectories(folder_));
    // A server that was killed may have left one.
    unlink(path_.c_str());
    RETURN_IF_ERROR(store->Backup(path_));
    ASSIGN_OR_RETURN(file_, FileHandle::Open(path_, O_RDONLY));
    ASSIGN_OR_RETURN(size_, file_.Size());
    return absl::OkStatus();
  }

  // Reads the whole file.
  absl::StatusOr<v1::CreateBackupResponse> Describe() {
    Sha256Stream sha256;
    for (int64_t offset = 0; offset < size_; offset += kChunkBytes) {
      ASSIGN_OR_RETURN(const std::string data,
                       file_.ReadAt(offset, kChunkBytes));
      sha256.Add(data);
    }
    v1::CreateBackupResponse response;
    response.set_size_bytes(size_);
    response.set_sha256(sha256.Finish());
    return response;
  }

  absl::StatusOr<v1::CreateBackupResponse> Next() {
    v1::CreateBackupResponse response;
    ASSIGN_OR_RETURN(*response.mutable_data(),
                     file_.ReadAt(offset_, kChunkBytes));
    offset_ += static_cast<int64_t>(response.data().size());
    return response;
  }
  bool complete() const { return offset_ >= size_; }
  int64_t size() const { return size_; }

 private:
  const std::string folder_;
  const std::string path_;
  FileHandle file_;
  int64_t size_ = 0;
  int64_t offset_ = 0;
};

class BackupStream : public LoopStream<v1::CreateBackupResponse> {
 public:
  BackupStream(CoordinatorHost* host,
               const std::shared_ptr<const Caller>& caller, JobStore* store,
               EventLoop* thread, std::shared_ptr<bool> busy)
      : LoopStream(host, StillKnown(caller)),
        caller_(caller),
        store_(store),
        thread_(*thread),
        busy_(std::move(busy)) {}

 private:
  std::shared_ptr<BackupStream> Self() {
    return std::static_pointer_cast<BackupStream>(shared_from_this());
  }

  void Begin() override {
    if (*busy_) {
      return End(
          absl::ResourceExhaustedError("another backup is under way: wait"));
    }
    mine_ = *busy_ = true;
    listener_ = host().AddListener("", [weak = std::weak_ptr(Self())] {
      if (auto self = weak.lock()) self->Wake();
    });
  }

  void Next() override {
    if (reading_) return;
    if (complete_) return End(absl::OkStatus());
    reading_ = true;
    thread_.Post([self = Self()] {
      auto response = self->Read();
      self->host().loop().Post([self, response = std::move(response)] {
        self->reading_ = false;
        self->Take(response);
      });
    });
  }

  // On the backups' thread, one at a time.
  absl::StatusOr<v1::CreateBackupResponse> Read() {
    if (file_ == nullptr) {
      file_ = std::make_unique<BackupFile>(host().data_dir());
      RETURN_IF_ERROR(file_->Create(store_));
      return file_->Describe();
    }
    return file_->Next();
  }

  void Take(const absl::StatusOr<v1::CreateBackupResponse>& response) {
    if (ended()) return Free();
    if (!response.ok()) return End(response.status());
    complete_ = file_->complete();
    if (complete_) {
      LOG(INFO) << "event=backup user=\"" << caller_->user()
                << "\" bytes=" << file_->size();
    }
    Write(*response);
  }

  void Close() override {
    if (listener_ != 0) host().RemoveListener("", listener_);
    if (!reading_) Free();
  }

  // Lets the next one begin, once the thread is done with this one's file.
  void Free() {
    file_.reset();
    if (mine_) *busy_ = false;
    mine_ = false;
  }

  // Holds its user's place for a stream.
  const std::shared_ptr<const Caller> caller_;
  JobStore* const store_;
  EventLoop& thread_;
  const std::shared_ptr<bool> busy_;
  bool mine_ = false;
  std::unique_ptr<BackupFile> file_;
  int64_t listener_ = 0;
  bool reading_ = false;
  bool complete_ = false;
};

}  // namespace

BackupService::BackupService(CoordinatorHost* host, AccessControl* access,
                             JobStore* store)
    : host_(host), access_(access), store_(store) {}

grpc::ServerWriteReactor<v1::CreateBackupResponse>* BackupService::CreateBackup(
    grpc::CallbackServerContext* context, const v1::CreateBackupRequest*) {
  auto caller = access_->Identify(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = (*caller)->Check(Permission::kAdminister, "");
  if (status.ok()) status = (*caller)->ChargeStream();
  if (!status.ok()) return RejectStream<v1::CreateBackupResponse>(status);
  return BackupStream::Start(std::make_shared<BackupStream>(
      host_, std::shared_ptr<const Caller>(*std::move(caller)), store_,
      &thread_, busy_));
}

}  // namespace comera::server
