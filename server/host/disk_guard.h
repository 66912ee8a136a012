#ifndef COMERA_SERVER_HOST_DISK_GUARD_H_
#define COMERA_SERVER_HOST_DISK_GUARD_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/runtime/disk_space.h"

namespace comera::server {

// Decides when a coordinator takes no more changes for want of room on its
// disk, and keeps a file in reserve whose room lets the last ones be written.
//
// Modes: *writable* -> *read-only* when fewer than `min_free_bytes` are free or
// the store finds the disk full -> *writable* when `resume_free_bytes` are free
// again and nothing waits for room. The reserve is given up when the store
// finds the disk full, and made again in the first writable Check() with room
// for it. Thread-safe.
class DiskGuard {
 public:
  struct Options {
    // 0: only a disk that is full makes the coordinator read-only.
    int64_t min_free_bytes = int64_t{256} << 20;
    // At least min_free_bytes.
    int64_t resume_free_bytes = int64_t{512} << 20;
    // 0: nothing is kept in reserve.
    int64_t reserve_bytes = int64_t{64} << 20;
  };
  // The name of the reserve in the data folder.
  static constexpr char kReserveName[] = "disk-reserve";

  // `space`, that of the file system of `folder`, must outlive it.
  DiskGuard(const Options& options, std::string folder, DiskSpace* space);

  // Looks at the disk; to be called about every second, and once before the
  // store is opened. Blocks for as long as statvfs does.
  void Check();
  // The store found the disk full. Returns whether the reserve gave it room.
  bool OnFull();
  // What waited for room in the store was written, or nothing waits.
  void OnWritten();

  bool read_only() const { return read_only_; }
  // ResourceExhausted in read-only mode: says why, and what ends it.
  absl::Status CheckWritable() const;
  // ResourceExhausted: with so many bytes more in the folder less would be free
  // than a read-only coordinator waits for. What may be large asks as it goes
  // on, so that the store has room left when it is refused. Blocks as Check()
  // does.
  absl::Status CheckRoom(int64_t bytes) const;
  // The same for changes that make room, such as deletions: they are refused
  // only while the store cannot write at all.
  absl::Status CheckMakesRoom() const;

 private:
  void SetReadOnly(bool read_only, int64_t free_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether there was one.
  bool GiveReserveUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::string folder_;
  const std::string reserve_;
  DiskSpace* const space_;
  std::atomic<bool> read_only_{false};
  mutable std::mutex mutex_;
  // Something waits in the store for room.
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  // By the last look; -1: unknown.
  int64_t free_bytes_ ABSL_GUARDED_BY(mutex_) = -1;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_DISK_GUARD_H_
