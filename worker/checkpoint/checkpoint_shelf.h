#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_SHELF_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_SHELF_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/checkpoint/stored_checkpoints.h"
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
  // Notes what the store has: all of it, or one state more or less. Return
  // whether that is news.
  bool SetStored(StoredStates states);
  bool AddStored(const std::string& job, const StateKey& key);
  void DropStored(const std::string& job, const StateKey& key);
  // Forgets what is here of a job that no longer exists.
  void Forget(const std::string& job);

  // Appends an entry for each training state held.
  void Fill(google::protobuf::RepeatedPtrField<v1::HeldCheckpoint>* held) const;

 private:
  const JobFolders* const folders_;
  const ReplicaCache* const cache_;
  std::map<std::string, std::vector<v1::HeldCheckpoint>> on_disk_;
  StoredStates stored_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_SHELF_H_
