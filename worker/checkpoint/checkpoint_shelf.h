#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_SHELF_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_SHELF_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/gang/job_folders.h"

namespace comera::worker {

// Lists the training states that this worker holds on disk and in memory, for
// the coordinator. Not thread-safe.
class CheckpointShelf {
 public:
  CheckpointShelf(const JobFolders* folders, const ReplicaCache* cache)
      : folders_(folders), cache_(cache) {}

  // Reads anew what the folders hold, of all jobs or of one.
  void ScanAll();
  void Scan(const std::string& job);
  // Notes that the state has arrived in the store, which keeps the newest
  // `keep` states of a job.
  void MarkStored(const std::string& job, const StateKey& key, int keep);
  // Forgets a job that no longer exists.
  void Forget(const std::string& job);

  // Appends an entry for each training state held.
  void Fill(google::protobuf::RepeatedPtrField<v1::HeldCheckpoint>* held) const;

 private:
  const JobFolders* const folders_;
  const ReplicaCache* const cache_;
  std::map<std::string, std::vector<v1::HeldCheckpoint>> on_disk_;
  // The states in the store, by job.
  std::map<std::string, std::set<StateKey>> durable_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_SHELF_H_
