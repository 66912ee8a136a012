#ifndef COMERA_WORKER_REPORT_GROWING_FILE_H_
#define COMERA_WORKER_REPORT_GROWING_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/files/descriptor.h"
#include "worker/files/open_folder.h"
#include "worker/files/plain_file.h"

namespace comera::worker {

// A file that comes part by part: it grows beside its place, under another
// name, and appears in its place whole. What has come stays over the end of
// this object and of the process, so that it can be gone on with.
//
// Only one GrowingFile at a time has a name, over all processes. The folder may
// be one that others write to: all is done by its descriptor, and what they put
// in the place of a name is replaced, never followed. Move-only; not
// thread-safe. Errors are those of OpenFolder, of which ResourceExhausted means
// that the disk is full.
class GrowingFile {
 public:
  // Opens the file `temporary` of the folder, and goes on after the bytes that
  // it has. Links and files with a second name, which others may have put
  // there, are removed. Aborted: another GrowingFile has it open.
  static absl::StatusOr<GrowingFile> Open(OpenFolder folder, std::string name,
                                          std::string temporary);
  // Makes the file `temporary` of the folder, which begins with no bytes. What
  // has that name is removed, and is never opened.
  static absl::StatusOr<GrowingFile> Create(OpenFolder folder, std::string name,
                                            std::string temporary);
  GrowingFile(GrowingFile&& other) noexcept = default;
  GrowingFile& operator=(GrowingFile&&) = delete;

  // The bytes that have come.
  int64_t size() const { return size_; }
  // The open file, to read what has come, whatever has its name by now.
  absl::StatusOr<PlainFile> Contents() const;

  absl::Status Append(std::string_view data);
  // Begins anew with no bytes.
  absl::Status Reset();
  // Makes it durable and moves it to its place, over what is there.
  // Unavailable: another file has its name, or it has another name.
  absl::Status Commit();
  // Removes it. Neither this nor Commit may be followed by other calls.
  void Discard();

 private:
  GrowingFile(OpenFolder folder, std::string name, std::string temporary,
              Descriptor fd);

  std::string Path() const;

  OpenFolder folder_;
  std::string name_;
  std::string temporary_;
  Descriptor fd_;
  int64_t size_ = 0;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_GROWING_FILE_H_
