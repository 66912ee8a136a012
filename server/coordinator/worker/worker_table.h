#ifndef COMERA_SERVER_COORDINATOR_WORKER_WORKER_TABLE_H_
#define COMERA_SERVER_COORDINATOR_WORKER_WORKER_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
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
  // Gives the worker's answer a new version.
  void MarkChanged(const std::string& id, Operation* op);

  std::map<std::string, WorkerState>& workers() { return workers_; }
  const std::map<std::string, WorkerState>& workers() const { return workers_; }

 private:
  int64_t first_version_ = 1;
  std::map<std::string, WorkerState> workers_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_WORKER_TABLE_H_
