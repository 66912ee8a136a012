#ifndef COMERA_WORKER_REPORT_ARTIFACT_STORE_H_
#define COMERA_WORKER_REPORT_ARTIFACT_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/files/plain_file.h"

namespace comera::worker {

// A store of files, shared by all workers, that survives the loss of a machine.
//
// Names are relative paths of [A-Za-z0-9._-] parts that do not begin with a
// dot. A file is there whole or not at all. Thread-safe; several processes may
// use one store.
//
// Errors of all: InvalidArgument, the name is malformed. Unavailable,
// PermissionDenied, FailedPrecondition: the store cannot be reached, refuses
// this worker, or is not what it should be; each may pass. Aborted: `abandoned`
// was set meanwhile.
class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;

  // Stores the contents of the open file, which is never in memory as a whole.
  // It is durable on return and replaces one of the same name. What arrives is
  // compared with what was sent. ResourceExhausted: the store is full. Errors
  // of reading that file are those of PlainFile.
  virtual absl::Status PutFile(const std::string& name, const PlainFile& file,
                               const std::atomic<bool>& abandoned) = 0;
  // Passes the contents from `offset` on to `part`, with the size of the whole,
  // part by part; one part may be empty. The checksum is left to the caller,
  // because only a part may be read. NotFound: there is no such file.
  // OutOfRange: `offset` lies behind the end, or reading cannot begin there.
  // DataLoss: the file is cut short. Other errors are those of `part`.
  using OnPart =
      std::function<absl::Status(int64_t size, std::string_view data)>;
  virtual absl::Status Read(const std::string& name, int64_t offset,
                            const std::atomic<bool>& abandoned,
                            const OnPart& part) = 0;
  // The files below a folder, by their names in it, sorted; none if it does not
  // exist. Unavailable: it may not be read as a whole, or it is of the first
  // level and did exist.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder, const std::atomic<bool>& abandoned) = 0;
  // Succeeds also if there is no such file.
  virtual absl::Status Delete(const std::string& name,
                              const std::atomic<bool>& abandoned) = 0;
  // Removes what writes below the folder that were cut short have left, once it
  // is `age` old.
  virtual absl::Status Tidy(const std::string& folder, absl::Duration age,
                            const std::atomic<bool>& abandoned) = 0;
};

// InvalidArgument: the name is malformed.
absl::Status CheckArtifactName(const std::string& name);

// Opens a store below `directory`, e.g. on a shared file system. The last line
// of each file holds the SHA-256 of the rest.
std::unique_ptr<ArtifactStore> OpenDirectoryStore(std::string directory);

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_ARTIFACT_STORE_H_
