// Appends to a partial blob and publishes it once its checksum is right.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "server/dataset/blob_store.h"

namespace comera::server {
namespace {

absl::Status TakenOver() {
  return absl::AbortedError("another client sends this blob now");
}

}  // namespace

BlobUpload::BlobUpload(BlobStore* store, std::string sha256, int64_t size,
                       BlobSender sender)
    : store_(store),
      sha256_(std::move(sha256)),
      size_(size),
      sender_(std::move(sender)) {}

BlobUpload::~BlobUpload() { Release(); }

void BlobUpload::Release() {
  if (store_ == nullptr) return;
  if (discard_ || received_ == 0) {
    store_->RemoveBlob(sha256_, store_->PartialPath(sha256_));
  }
  store_->uploads_.erase(sha256_);
  store_ = nullptr;
}

absl::Status BlobUpload::Discard(const absl::Status& why) {
  discard_ = true;
  Release();
  return why;
}

absl::StatusOr<bool> BlobUpload::CatchUp(int64_t max_bytes) {
  if (store_ == nullptr) return TakenOver();
  const int64_t wanted = std::min(max_bytes, received_ - hashed_);
  if (wanted > 0) {
    ASSIGN_OR_RETURN(const std::string data,
                     file_.ReadAt(hashed_, static_cast<size_t>(wanted)));
    if (static_cast<int64_t>(data.size()) != wanted) {
      return Discard(absl::DataLossError("the stored part was cut"));
    }
    hash_.Add(data);
    hashed_ += wanted;
  }
  return hashed_ == received_;
}

absl::Status BlobUpload::Add(std::string_view data) {
  if (store_ == nullptr) return TakenOver();
  if (static_cast<int64_t>(data.size()) > size_ - received_) {
    return Discard(absl::DataLossError(
        absl::StrCat("more than the announced ", size_, " bytes")));
  }
  const auto bytes = static_cast<int64_t>(data.size());
  RETURN_IF_ERROR(store_->CheckRoom(bytes));
  RETURN_IF_ERROR(store_->CheckSender(sender_, bytes));
  if (absl::Status status = file_.WriteAt(received_, data); !status.ok()) {
    // Some of it may have been written.
    if (ftruncate(file_.fd(), received_) != 0) return Discard(status);
    if (!absl::IsResourceExhausted(status)) return Discard(status);
    return Discard(absl::ResourceExhaustedError(
        absl::StrCat("the server's disk is full after ", received_, " of ",
                     size_, " bytes")));
  }
  hash_.Add(data);
  received_ += bytes;
  hashed_ = received_;
  store_->used_bytes_ += bytes;
  store_->AddUnclaimed(sha256_, sender_.user, bytes);
  last_activity_ = store_->clock_->Now();
  return absl::OkStatus();
}

absl::Status BlobUpload::Finish() {
  if (store_ == nullptr) return TakenOver();
  if (received_ != size_) {
    return absl::DataLossError(
        absl::StrCat(received_, " bytes of the announced ", size_, " arrived"));
  }
  if (const std::string sha256 = hash_.Finish(); sha256 != sha256_) {
    return Discard(absl::DataLossError(
        absl::StrCat("the bytes' checksum is ", sha256, ", not ", sha256_)));
  }
  if (absl::Status status = file_.Sync(); !status.ok()) return Discard(status);
  const absl::Status status =
      store_->Publish(store_->PartialPath(sha256_), sha256_);
  if (!status.ok()) return Discard(status);
  store_->uploads_.erase(sha256_);
  store_ = nullptr;
  return absl::OkStatus();
}

}  // namespace comera::server
