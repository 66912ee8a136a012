#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_SHELF_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_SHELF_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/gang/job_folders.h"

namespace comera::worker {

// What this worker has of jobs' training states, for the coordinator. Not
// thread-safe.
class CheckpointShelf {
 public:
  CheckpointShelf(const JobFolders* folders, const ReplicaCache* cache)
      : folders_(folders), cache_(cache) {}

  // Looks at the folders of all jobs; of this one.
  void ScanAll();
  void Scan(const std::string& job);
  // It lies in the store, where so many of a job are kept.
  void MarkStored(const std::string& job, int64_t step, int keep);
  void Forget(const std::string& job);

  void Fill(google::protobuf::RepeatedPtrField<v1::HeldCheckpoint>* held) const;

 private:
  const JobFolders* const folders_;
  const ReplicaCache* const cache_;
  std::map<std::string, std::vector<v1::HeldCheckpoint>> on_disk_;
  std::map<std::string, std::set<int64_t>> durable_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_SHELF_H_
