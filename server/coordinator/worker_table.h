#ifndef COMERA_SERVER_COORDINATOR_WORKER_TABLE_H_
#define COMERA_SERVER_COORDINATOR_WORKER_TABLE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// A Synchronize call that waits for news.
struct HeldCall {
  int64_t call = 0;
  absl::Time deadline;
};

// What the coordinator knows of one worker daemon; in memory only.
struct WorkerState {
  std::string id;
  std::string incarnation;
  // Replaced incarnations, newest last: they are refused.
  std::deque<std::string> retired;
  std::string host;
  std::string version;
  std::vector<v1::Slot> slots;
  // Of its PeerService; empty: none.
  std::string peer_address;
  // What it holds of jobs' training states, by job.
  std::map<std::string, std::vector<v1::HeldCheckpoint>> held_checkpoints;
  // When it was last asked whether its process is still there.
  absl::Time last_probe = absl::InfinitePast();
  // Slots of rank processes that the worker last reported as not exited.
  std::set<int32_t> occupied;
  // Active jobs with a rank here.
  std::set<std::string> jobs;
  absl::Time last_seen;
  // False from a coordinator's restart until the worker is heard again.
  bool attached = false;
  // Not heard from for too long: its ranks were given up.
  bool lost = false;
  // Rises with every change of the worker's answer.
  int64_t desired_version = 0;
  std::optional<HeldCall> held;
  std::string rack;
  // Since when slots are unfit, by index.
  std::map<int32_t, absl::Time> unfit_since;
  // Failures that count towards an exclusion: when, and of which job.
  std::deque<std::pair<absl::Time, std::string>> failures;
  // As stored.
  WorkerPolicy policy;
};

// The workers by id. Not thread-safe.
class WorkerTable {
 public:
  // Of documents that hold a WorkerPolicy.
  static constexpr char kDocumentKind[] = "worker";
  // Known workers are few; a flood of invented names is not.
  static constexpr size_t kMaxWorkers = 20000;

  // Versions start above all that an earlier coordinator gave out.
  void set_first_version(int64_t version) { first_version_ = version; }

  // Null if unknown.
  WorkerState* Find(const std::string& id);
  // Null if there are too many workers.
  WorkerState* FindOrAdd(const std::string& id);
  // Marks the worker's answer as changed.
  void Touch(const std::string& id);

  std::map<std::string, WorkerState>& workers() { return workers_; }
  const std::map<std::string, WorkerState>& workers() const { return workers_; }

 private:
  int64_t first_version_ = 1;
  std::map<std::string, WorkerState> workers_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_TABLE_H_
