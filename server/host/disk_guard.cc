// Implements DiskGuard: watermarks, the reserve, and the read-only mode.
#include "server/host/disk_guard.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace comera::server {
namespace {

std::string Mebibytes(int64_t bytes) {
  return absl::StrCat((bytes + (1 << 20) - 1) >> 20, " MiB");
}

}  // namespace

DiskGuard::DiskGuard(const Options& options, std::string folder,
                     DiskSpace* space)
    : options_(options),
      folder_(std::move(folder)),
      reserve_(absl::StrCat(folder_, "/", kReserveName)),
      space_(space) {}

void DiskGuard::Check() {
  const absl::StatusOr<int64_t> free = space_->FreeBytes();
  // Whoever does not know writes on: the store finds out.
  if (!free.ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  free_bytes_ = *free;
  if (!read_only_) {
    if (*free < options_.min_free_bytes) SetReadOnly(true, *free);
  } else if (!stalled_ && *free >= options_.resume_free_bytes) {
    SetReadOnly(false, *free);
  }
  if (options_.reserve_bytes <= 0) return;
  if (read_only_) {
    // Others write on. The store needs some room even to be opened.
    if (*free < options_.reserve_bytes / 4) GiveReserveUp();
    return;
  }
  if (*free - options_.reserve_bytes < options_.min_free_bytes) return;
  const absl::Status reserved = ReserveFile(reserve_, options_.reserve_bytes);
  LOG_IF(WARNING, !reserved.ok())
      << "event=no_disk_reserve status=\"" << reserved << "\"";
}

bool DiskGuard::OnFull() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!read_only_) SetReadOnly(true, 0);
  if (GiveReserveUp()) return true;
  stalled_ = true;
  return false;
}

void DiskGuard::OnWritten() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stalled_ = false;
}

absl::Status DiskGuard::CheckWritable() const {
  if (!read_only_) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  return Refusal();
}

absl::Status DiskGuard::CheckRoom(int64_t bytes) const {
  const absl::StatusOr<int64_t> free = space_->FreeBytes();
  if (!free.ok() || bytes <= *free - options_.resume_free_bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      bytes, " bytes are to be stored, and ", *free,
      " are free on the disk of ", folder_, ", of which ",
      options_.resume_free_bytes, " are for the coordinator's store"));
}

absl::Status DiskGuard::CheckMakesRoom() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stalled_ ? Refusal() : absl::OkStatus();
}

absl::Status DiskGuard::Refusal() const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the coordinator is read-only, because ",
      stalled_ ? "its store finds the disk full"
               : absl::StrCat("the disk of ", folder_, " is full"),
      ": ",
      free_bytes_ < 0 ? "" : absl::StrCat(Mebibytes(free_bytes_), " free, "),
      "writable again with ", Mebibytes(options_.resume_free_bytes)));
}

void DiskGuard::SetReadOnly(bool read_only, int64_t free_bytes) {
  read_only_ = read_only;
  LOG(WARNING) << "event=read_only on=" << read_only
               << " free_bytes=" << free_bytes << " folder=" << folder_;
}

bool DiskGuard::GiveReserveUp() { return unlink(reserve_.c_str()) == 0; }

}  // namespace comera::server
