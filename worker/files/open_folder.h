#ifndef COMERA_WORKER_FILES_OPEN_FOLDER_H_
#define COMERA_WORKER_FILES_OPEN_FOLDER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/files/descriptor.h"
#include "worker/files/path_below.h"

namespace comera::worker {

// An open folder whose files members of a gang may replace by links, swap and
// rename at any time, while this daemon, which has more rights than they have,
// reads and writes there. It was reached from its root without following a link
// (OpenBeneath), and all that is done in it is done by its descriptor and one
// name, of which no link is followed either: so nobody who can write below the
// root leads the daemon out of it.
//
// Names are those of files in this folder itself, without "/"; others are
// InvalidArgument. FailedPrecondition: there is a link, or no folder, where a
// folder or a file was expected. Other errors are those of ErrnoStatus
// (common/files.h). Messages name the file. Move-only; thread-safe.
class OpenFolder {
 public:
  // NotFound: there is no such folder.
  static absl::StatusOr<OpenFolder> Open(const PathBelow& folder);
  // Makes the root and the folders below it that are missing, and opens it.
  static absl::StatusOr<OpenFolder> Make(const PathBelow& folder);

  // Opens the folder of that name in it. NotFound: there is none.
  absl::StatusOr<OpenFolder> Child(const std::string& name) const;

  // Opens a file with the flags of open(2).
  absl::StatusOr<Descriptor> OpenFile(const std::string& name, int flags,
                                      mode_t mode = 0) const;
  // Makes an empty file, unless there is something of that name.
  absl::Status MakeFile(const std::string& name) const;
  // The names of all that it holds, in no order.
  absl::StatusOr<std::vector<std::string>> List() const;
  // The bytes of the plain file of that name; none if there is no plain file.
  std::optional<int64_t> SizeOf(const std::string& name) const;
  // Whether the name is still that of the open file, and its only one.
  bool IsOnlyNameOf(const std::string& name, int fd) const;
  // Gives a file a new name, over what has it.
  absl::Status Rename(const std::string& from, const std::string& to) const;
  // Removes what is no folder. OK also if there is nothing.
  absl::Status Remove(const std::string& name) const;
  // Makes new names durable.
  absl::Status Sync() const;

  const PathBelow& path() const { return path_; }
  int fd() const { return fd_.get(); }

 private:
  OpenFolder(PathBelow path, Descriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status CheckName(const std::string& name) const;
  std::string PathOf(const std::string& name) const {
    return path_.Child(name).ToString();
  }

  PathBelow path_;
  Descriptor fd_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_FILES_OPEN_FOLDER_H_
