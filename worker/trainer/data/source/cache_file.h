#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_CACHE_FILE_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_CACHE_FILE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

// Results that are slow to compute, kept as checksummed files of a folder and
// shared by processes: of several that start together one computes, the others
// wait for it (flock) and read.
//
// Thread safety: not needed by a process's one opener; processes may overlap.
class FileCache {
 public:
  // "" turns caching off. `on_activity` is called while waiting and when the
  // folder cannot be used, which is no error; may be empty.
  FileCache(std::string directory,
            std::function<void(const std::string&)> on_activity)
      : directory_(std::move(directory)),
        on_activity_(std::move(on_activity)) {}

  // What `build` returned, now or earlier, for `kind` ("vocabulary") and `key`
  // (all that the result depends on, any length). `accept` takes the bytes into
  // use; if it refuses cached ones, as when the checksum is wrong, they are
  // built again.
  absl::Status GetOrBuild(
      absl::string_view kind, absl::string_view key,
      const std::function<absl::StatusOr<std::string>()>& build,
      const std::function<absl::Status(absl::string_view)>& accept);

  // The same for a folder of files: `build` fills one that is empty, which then
  // appears whole, by rename; `accept` takes it into use, and stays with it.
  // FailedPrecondition: caching is off; Unavailable, ResourceExhausted,
  // PermissionDenied: the folder cannot be written.
  absl::Status GetOrBuildFolder(
      absl::string_view kind, absl::string_view key,
      const std::function<absl::Status(const std::string&)>& build,
      const std::function<absl::Status(const std::string&)>& accept);

  bool is_on() const { return !directory_.empty(); }

 private:
  // Where the result for a key lies.
  std::string PathOf(absl::string_view kind, absl::string_view key) const;
  // Waits for the lock of a path. The caller closes the descriptor; `waited`:
  // another process had it. Where the filesystem has no locks it goes on
  // without one, unless `must_lock`: files appear whole by rename, but a folder
  // has to have one writer.
  absl::StatusOr<int> Lock(absl::string_view kind, const std::string& path,
                           bool must_lock, bool* waited);
  absl::Status Build(
      const std::string& path,
      const std::function<absl::StatusOr<std::string>()>& build,
      const std::function<absl::Status(absl::string_view)>& accept);
  void Report(const std::string& message) const {
    if (on_activity_) on_activity_(message);
  }

  const std::string directory_;
  const std::function<void(const std::string&)> on_activity_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_CACHE_FILE_H_
