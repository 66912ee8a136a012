#ifndef COMERA_SERVER_COORDINATOR_JOB_RENDEZVOUS_MIRROR_H_
#define COMERA_SERVER_COORDINATOR_JOB_RENDEZVOUS_MIRROR_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace comera::server {

// The rendezvous entries of one gang and the workers that wrote them, by which
// the members find each other. They are in memory only; workers repeat their
// entries, so a restarted coordinator has them again. Not thread-safe.
class RendezvousMirror {
 public:
  // The limit on MaxBytes, so that the answer to a worker, which takes 64 MiB,
  // has room for a whole gang.
  static constexpr size_t kMostBytes = size_t{56} << 20;

  // The most bytes that a gang of so many members may leave, far above what
  // meeting takes: each writes an address for each other, of 136 bytes where
  // they meet over Gloo.
  static size_t MaxBytes(size_t members);

  // Returns whether anything changed. ResourceExhausted: all would have more
  // than `max_bytes`.
  absl::StatusOr<bool> Put(const std::string& worker, const std::string& key,
                           const std::string& value, size_t max_bytes);

  // Counts a part for each entry, too, so that empty ones are bounded.
  size_t bytes() const { return bytes_; }

  // Appends what other workers than `worker` wrote, up to `room` bytes.
  void AppendForeign(
      const std::string& worker, const std::string& job, int64_t attempt,
      size_t room,
      google::protobuf::RepeatedPtrField<v1::RendezvousEntry>* out) const;

 private:
  // Writer and value by key. The last writer wins.
  std::map<std::string, std::pair<std::string, std::string>> entries_;
  size_t bytes_ = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_RENDEZVOUS_MIRROR_H_
