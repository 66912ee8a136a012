#ifndef COMERA_SERVER_COORDINATOR_WORKER_WORKER_TABLE_H_
#define COMERA_SERVER_COORDINATOR_WORKER_WORKER_TABLE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/worker/worker_state.h"
#include "server/store/job_store.h"

namespace comera::server {

// The workers by id. Pointers stay valid. Not thread-safe.
class WorkerTable {
 public:
  static constexpr const char* kDocumentKind = WorkerState::kDocumentKind;
  // Known workers are few; a flood of invented names is not.
  static constexpr size_t kMaxWorkers = 20000;

  // The stored policies. DataLoss: one cannot be read.
  absl::Status Load(const std::vector<Document>& documents);
  // Versions start above all that an earlier coordinator gave out.
  void set_first_version(int64_t version) { first_version_ = version; }

  // Null if unknown.
  WorkerState* Find(const std::string& id);
  const WorkerState* Find(const std::string& id) const;
  // Null if there are too many workers.
  WorkerState* FindOrAdd(const std::string& id);
  // The same, but an unknown worker is added only if an operator or the
  // coordinator has decided something about it, else null.
  WorkerState* FindOrRecall(const std::string& id);
  // Forgets the workers that have been away, without a job, for longer, and
  // returns their ids. To be called now and then: time counts from the first
  // call that finds the worker away. What was decided about them holds again
  // when they come back.
  std::vector<std::string> ForgetAway(absl::Time now, absl::Duration longer);
  // Forgets the worker, which must be known and have no jobs, with what was
  // decided about it.
  void Remove(const std::string& id, Operation* op);
  // At most `limit` workers that can be reached, looked for among the
  // neighbours of `text` on a ring of hashes: the same for the same text as
  // long as the workers are, and different ones for different texts. In the
  // time of the limit, however many workers there are.
  std::vector<const WorkerState*> Neighbours(const std::string& text,
                                             size_t limit) const;
  // Gives the worker's answer a new version.
  void MarkChanged(const std::string& id, Operation* op);

  std::map<std::string, WorkerState>& workers() { return workers_; }
  const std::map<std::string, WorkerState>& workers() const { return workers_; }

 private:
  void Erase(const WorkerState& worker);

  int64_t first_version_ = 1;
  std::map<std::string, WorkerState> workers_;
  std::set<std::pair<uint64_t, const WorkerState*>> ring_;
  // The policies of forgotten workers.
  std::map<std::string, WorkerPolicy> policies_;
};

// A number that spreads texts, the same on every coordinator.
uint64_t SpreadText(std::string_view text,
                    uint64_t seed = 14695981039346656037u);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_WORKER_TABLE_H_
