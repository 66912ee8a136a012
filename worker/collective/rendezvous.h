#ifndef COMERA_WORKER_COLLECTIVE_RENDEZVOUS_H_
#define COMERA_WORKER_COLLECTIVE_RENDEZVOUS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace comera::collective {

// The place where the members of one gang leave their addresses for each other:
// a map from key to value in which a key, once written, never changes.
//
// Thread safety: all methods may be called from any thread.
class Rendezvous {
 public:
  // Longest key and value, in bytes.
  static constexpr size_t kMaxKeyBytes = 80;
  static constexpr size_t kMaxValueBytes = 1 << 20;

  virtual ~Rendezvous() = default;

  // OK also when the key holds this very value already.
  // AlreadyExists: it holds another. InvalidArgument: empty or too long.
  // Unavailable, ResourceExhausted: the medium failed.
  virtual absl::Status Set(std::string_view key, std::string_view value) = 0;

  // Waits until the key is there. DeadlineExceeded: not within `timeout`.
  virtual absl::StatusOr<std::string> Get(std::string_view key,
                                          absl::Duration timeout) = 0;
};

// A Rendezvous over a folder: one file per key, its name the key with every
// byte outside [A-Za-z0-9_-] written as %XX. Several processes may use the
// folder at once; a reader sees a value whole or not at all. No other user can
// look into the folder.
class FileRendezvous : public Rendezvous {
 public:
  using Entry = std::pair<std::string, std::string>;

  // The folder is made if it is missing, and closed to other users if it is
  // this one's.
  static absl::StatusOr<FileRendezvous> Open(const std::string& folder);

  absl::Status Set(std::string_view key, std::string_view value) override;
  absl::StatusOr<std::string> Get(std::string_view key,
                                  absl::Duration timeout) override;

  // The most files that Keys looks at: a gang of 1024 has three for each member
  // and a few more, and a member could make any number.
  static constexpr int kMaxFiles = 1 << 14;

  // Keys written so far, sorted; files that are no entries are passed over.
  absl::StatusOr<std::vector<std::string>> Keys() const;

 private:
  explicit FileRendezvous(std::string folder) : folder_(std::move(folder)) {}

  std::string PathOf(std::string_view key) const;

  std::string folder_;
};

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_RENDEZVOUS_H_
