#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_FILE_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/files/open_folder.h"
#include "worker/files/path_below.h"
#include "worker/files/plain_file.h"

namespace comera::worker {

// An open file with a training state, of any size, that is read part by part.
// It can be read to its end also after it was deleted. Move-only; the methods
// may be called from several threads.
class CheckpointFile {
 public:
  using OnPart = PlainFile::OnPart;

  explicit CheckpointFile(PlainFile contents)
      : contents_(std::move(contents)) {}
  // Errors are those of PlainFile::Open.
  static absl::StatusOr<CheckpointFile> Open(const PathBelow& path);
  static absl::StatusOr<CheckpointFile> Open(const OpenFolder& folder,
                                             const std::string& name);

  int64_t size() const { return contents_.size(); }
  const PlainFile& contents() const { return contents_; }

  // PlainFile::Read.
  absl::Status Read(int64_t offset, const OnPart& part) const {
    return contents_.Read(offset, part);
  }

  // Compares the contents with the checksum at their end. DataLoss: they
  // differ. `sha256`, unless null, gets the digits of the SHA-256 of the whole
  // file. `part`, which may be empty, sees all bytes and may end it by an
  // error.
  absl::Status Verify(std::string* sha256 = nullptr,
                      const OnPart& part = nullptr) const;

 private:
  PlainFile contents_;
};

// Whether `contents` end with the checksum of the rest.
bool IsWhole(std::string_view contents);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_FILE_H_
