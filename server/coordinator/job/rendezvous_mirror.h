#ifndef COMERA_SERVER_COORDINATOR_JOB_RENDEZVOUS_MIRROR_H_
#define COMERA_SERVER_COORDINATOR_JOB_RENDEZVOUS_MIRROR_H_

#include <map>
#include <string>
#include <utility>

#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace comera::server {

// The rendezvous entries of one gang and the workers that wrote them, by which
// the members find each other. They are in memory only; workers repeat their
// entries, so a restarted coordinator has them again. Not thread-safe.
class RendezvousMirror {
 public:
  // Further entries are left out; no gang needs so many.
  static constexpr size_t kMaxEntries = 65536;

  // Returns whether anything changed.
  bool Put(const std::string& worker, const std::string& key,
           const std::string& value);

  // Appends what other workers than `worker` wrote.
  void AppendForeign(
      const std::string& worker, const std::string& job, int64_t attempt,
      google::protobuf::RepeatedPtrField<v1::RendezvousEntry>* out) const;

 private:
  // Writer and value by key. The last writer wins.
  std::map<std::string, std::pair<std::string, std::string>> entries_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_RENDEZVOUS_MIRROR_H_
