#ifndef COMERA_WORKER_SESSION_RENDEZVOUS_EXCHANGE_H_
#define COMERA_WORKER_SESSION_RENDEZVOUS_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "worker/gang/job_folders.h"

namespace comera::worker {

// Carries rendezvous entries between the folders of this worker's gangs and
// the coordinator. Members may have put anything into the folders, which must
// not keep the worker's calls from being read. Not thread-safe.
class RendezvousExchange {
 public:
  using Gang = std::pair<std::string, int64_t>;  // job, attempt
  using Gangs = std::map<Gang, int>;             // the members on this worker

  // The most bytes of one gang, and of all, in one call, of which the
  // coordinator accepts 16 MiB with reports, logs and statuses. A member that
  // meets 1023 others over Gloo writes 140 KiB, and over NCCL less than 1 KiB.
  static constexpr size_t kMaxGangBytes = size_t{4} << 20;
  static constexpr size_t kMaxCallBytes = size_t{6} << 20;

  explicit RendezvousExchange(const JobFolders* folders) : folders_(folders) {}

  // Adds the entries that this worker's members wrote, all of them each time,
  // because the coordinator keeps them in memory only. Returns whether any is
  // new. Files whose names are no keys of ours are passed over. Of the room in
  // the call each gang has a share by its members here, or what others leave of
  // theirs; what exceeds it is left out and logged.
  bool Collect(
      const Gangs& gangs,
      google::protobuf::RepeatedPtrField<v1::RendezvousEntry>* entries);

  // Writes the other workers' entries of `gangs`. Returns the first error.
  absl::Status Deliver(
      const Gangs& gangs,
      const google::protobuf::RepeatedPtrField<v1::RendezvousEntry>& entries);

 private:
  using Key = std::pair<Gang, std::string>;

  void Forget(const Gangs& gangs);
  // Adds the gang's entries up to `room` bytes, of which it returns what is
  // left.
  size_t CollectGang(
      const Gang& gang, size_t room,
      google::protobuf::RepeatedPtrField<v1::RendezvousEntry>* entries);

  const JobFolders* const folders_;
  // What the last call told; a member may write under ever new keys, so earlier
  // ones are not kept.
  std::set<Key> sent_;
  std::set<Key> foreign_;
  // The gangs of which it was logged that not all is sent.
  std::set<Gang> cut_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_SESSION_RENDEZVOUS_EXCHANGE_H_
