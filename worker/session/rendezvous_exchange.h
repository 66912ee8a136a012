#ifndef COMERA_WORKER_SESSION_RENDEZVOUS_EXCHANGE_H_
#define COMERA_WORKER_SESSION_RENDEZVOUS_EXCHANGE_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "worker/gang/job_folders.h"

namespace comera::worker {

// Carries rendezvous entries between the folders of this worker's gangs and
// the coordinator. Not thread-safe.
class RendezvousExchange {
 public:
  using Gang = std::pair<std::string, int64_t>;  // job, attempt

  explicit RendezvousExchange(const JobFolders* folders) : folders_(folders) {}

  // Adds the entries that this worker's members wrote, all of them each time,
  // because the coordinator keeps them in memory only. Returns whether any is
  // new.
  bool Collect(
      const std::set<Gang>& gangs,
      google::protobuf::RepeatedPtrField<v1::RendezvousEntry>* entries);

  // Writes the other workers' entries of `gangs`. Returns the first error.
  absl::Status Deliver(
      const std::set<Gang>& gangs,
      const google::protobuf::RepeatedPtrField<v1::RendezvousEntry>& entries);

 private:
  using Key = std::pair<Gang, std::string>;

  void Forget(const std::set<Gang>& gangs);

  const JobFolders* const folders_;
  std::set<Key> sent_;
  std::set<Key> foreign_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_SESSION_RENDEZVOUS_EXCHANGE_H_
