#ifndef COMERA_WORKER_GANG_JOB_FOLDERS_H_
#define COMERA_WORKER_GANG_JOB_FOLDERS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "worker/files/path_below.h"

namespace comera::worker {

// The layout of jobs' files below the worker's data folder:
//   jobs/<id>/work/                     checkpoints and model; all attempts
//   jobs/<id>/epoch-<n>/rank-<r>/task.json
//   jobs/<id>/epoch-<n>/rank-<r>/events
//   jobs/<id>/epoch-<n>/rendezvous/
//   jobs/<id>/epoch-<n>/tmp/
//   jobs/<id>/logs/<n>-<r>.log
//   cache/                              vocabularies and tokenised data
//   lease                               touched while the worker runs
// Jobs are named `jobs/<id>`, as everywhere. Thread-safe.
class JobFolders {
 public:
  explicit JobFolders(std::string data_dir) : data_dir_(std::move(data_dir)) {}

  // The job's members own its work folder and may put anything in there, so
  // what it holds is reached by OpenFolder and PlainFile.
  PathBelow Work(const std::string& job) const;
  PathBelow Checkpoints(const std::string& job) const;
  // Holds temporary files of the attempt's members; removed with the attempt.
  std::string Temporary(const std::string& job, int64_t attempt) const;
  PathBelow Model(const std::string& job) const;
  PathBelow Targets(const std::string& job) const;
  // The file of another job's checkpoint that this one starts from.
  PathBelow Start(const std::string& job) const;
  std::string Rendezvous(const std::string& job, int64_t attempt) const;
  std::string Log(const v1::MemberKey& rank) const;
  // The file of the member's events, removed with the attempt.
  std::string Events(const v1::MemberKey& rank) const;
  // The file by which members see that their worker runs.
  std::string Lease() const;

  // Writes the member's task file, makes its folders, and returns the file's
  // path. `address` is where members on other workers reach this machine;
  // `device` is the device of the member's slot; `lease` is how long the member
  // goes on without this worker, 0 if it ends with it.
  absl::StatusOr<std::string> WriteTask(
      const v1::MemberAssignment& assignment, int threads,
      const std::string& address,
      v1::ResourceSpec::Device device = v1::ResourceSpec::CPU,
      absl::Duration lease = absl::ZeroDuration()) const;

  // The jobs that have files here other than logs.
  std::vector<std::string> Jobs() const;
  // The folders that a member must be able to write to. Programs do not get the
  // cache, in which others' data lie.
  std::vector<std::string> WritableFolders(
      const v1::MemberAssignment& member) const;

  // Removes everything of an attempt except its logs.
  void RemoveAttempt(const std::string& job, int64_t attempt) const;
  // Removes everything of a job except its logs.
  void RemoveAllButLogs(const std::string& job) const;

  // Removes what has not been written to for a long time: work and attempt
  // folders after `stopped`, logs after `logs`. Jobs in `active` are left
  // alone, and so are work folders with checkpoints: only the coordinator knows
  // whether a job is merely paused.
  void RemoveOld(const std::set<std::string>& active, absl::Duration stopped,
                 absl::Duration logs) const;

 private:
  std::string Job(const std::string& job) const;
  std::string Attempt(const std::string& job, int64_t attempt) const;

  std::string data_dir_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_JOB_FOLDERS_H_
