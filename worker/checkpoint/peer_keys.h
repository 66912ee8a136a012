#ifndef COMERA_WORKER_CHECKPOINT_PEER_KEYS_H_
#define COMERA_WORKER_CHECKPOINT_PEER_KEYS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "comera/v1/peer_service.pb.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::worker {

// What lets workers ask one another for training states: the grants that this
// worker shows to others, and the key by which it judges those that others show
// to it. All come from the coordinator. Thread-safe.
//
// A grant is for one job and attempt at one worker. It ends when the
// coordinator has changed the key twice, or when a later attempt of the job has
// shown one.
class PeerKeys {
 public:
  // Takes over what an answer of the coordinator brings.
  void Learn(const v1::SynchronizeResponse& response);

  // Returns the grant to show at `address` for the job; empty: there is none.
  std::string GrantFor(const std::string& address,
                       const std::string& job) const;

  // The job and attempt for which a caller acts.
  struct Granted {
    std::string job;
    int64_t attempt = 0;
  };
  // Reads a grant, of whichever job. Unauthenticated: it is not good here.
  // Aborted as below.
  absl::StatusOr<Granted> Judge(const std::string& grant);
  // Returns the attempt that a caller with this grant acts for.
  // Unauthenticated: the grant is not good here, or not for this job. Aborted:
  // a later attempt of the job has called already.
  absl::StatusOr<int64_t> Judge(const std::string& grant,
                                const std::string& job);

 private:
  // Nothing: it is not good here.
  std::optional<v1::PeerGrant> Open(const std::string& grant) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes that the attempt has called. Aborted: a later one has.
  absl::Status Admit(const v1::PeerGrant& granted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(const std::string& job, const v1::Peer& peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable std::mutex mutex_;
  // The coordinator's newest key for this worker, and the one before, by which
  // others' grants may still be sealed.
  std::string newest_ ABSL_GUARDED_BY(mutex_);
  std::string before_ ABSL_GUARDED_BY(mutex_);
  // By address and job. A copy may go on after its member has ended, so none is
  // removed with the assignment that brought it.
  std::map<std::pair<std::string, std::string>, std::string> grants_
      ABSL_GUARDED_BY(mutex_);
  // The newest attempt of each job that has shown a grant.
  std::map<std::string, int64_t> attempts_ ABSL_GUARDED_BY(mutex_);
  // The same, until the key was changed last.
  std::map<std::string, int64_t> attempts_before_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_PEER_KEYS_H_
