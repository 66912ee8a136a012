#ifndef COMERA_WORKER_REPORT_ARTIFACT_STORE_H_
#define COMERA_WORKER_REPORT_ARTIFACT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace comera::worker {

// A store of files, shared by all workers, that survives the loss of a machine.
//
// Names are relative paths of [A-Za-z0-9._-] parts that do not begin with a
// dot. A file is there whole or not at all, and is verified when read.
// Thread-safe; several processes may use one store.
//
// Errors: InvalidArgument, the name is malformed; Unavailable, the store cannot
// be reached.
class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;

  // The file is durable on return and replaces one of the same name.
  // ResourceExhausted: the store is full.
  virtual absl::Status Put(const std::string& name,
                           std::string_view contents) = 0;
  // Put with the contents of the file at `path`, which is never in memory as a
  // whole. Errors of reading that file are those of ErrnoStatus.
  virtual absl::Status PutFile(const std::string& name,
                               const std::string& path) = 0;
  // NotFound: there is no such file. DataLoss: it is damaged.
  virtual absl::StatusOr<std::string> Get(const std::string& name) = 0;
  // Passes the contents from `offset` on to `part`, with the size of the whole,
  // part by part; one part may be empty. The checksum is left to the caller,
  // because only a part may be read. NotFound: there is no such file.
  // OutOfRange: `offset` lies behind the end. DataLoss: the file is cut short.
  // Other errors are those of `part`.
  using OnPart =
      std::function<absl::Status(int64_t size, std::string_view data)>;
  virtual absl::Status Read(const std::string& name, int64_t offset,
                            const OnPart& part) = 0;
  // The names in a folder, of files and of folders, sorted; none if it does not
  // exist.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) = 0;
  // Succeeds also if there is no such file.
  virtual absl::Status Delete(const std::string& name) = 0;
  // Deletes files below the folder that were not written for `age`, except for
  // those with names in `spared`.
  virtual absl::Status Expire(const std::string& folder, absl::Duration age,
                              const std::set<std::string>& spared) = 0;
};

// Opens a store below `directory`, e.g. on a shared file system. The last line
// of each file holds the SHA-256 of the rest.
std::unique_ptr<ArtifactStore> OpenDirectoryStore(std::string directory);

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_ARTIFACT_STORE_H_
