#ifndef COMERA_SERVER_COORDINATOR_OPERATION_OPERATION_H_
#define COMERA_SERVER_COORDINATOR_OPERATION_OPERATION_H_

#include <set>
#include <string>

#include "absl/time/time.h"
#include "server/coordinator/operation/effects.h"

namespace comera::server {

// One operation of the coordinator: the time at which it happens, its effects,
// and the names of what it changed so far.
//
// An operation ends with Coordinator::Commit(), which turns changed jobs into
// records to be stored and answers the held calls of changed workers. Not
// thread-safe; `effects` must outlive it.
class Operation {
 public:
  Operation(absl::Time now, Effects* effects) : now_(now), effects_(effects) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  absl::Time now() const { return now_; }
  Effects& effects() { return *effects_; }

  // The job's record differs from the stored one.
  void MarkJobChanged(const std::string& name) { jobs_.insert(name); }
  // The worker is to be answered something else than before.
  void MarkWorkerChanged(const std::string& id) { workers_.insert(id); }
  // The next scheduling pass could place something.
  void RequestSchedule() { needs_schedule_ = true; }

  const std::set<std::string>& changed_jobs() const { return jobs_; }
  const std::set<std::string>& changed_workers() const { return workers_; }
  bool needs_schedule() const { return needs_schedule_; }

 private:
  const absl::Time now_;
  Effects* const effects_;
  std::set<std::string> jobs_;
  std::set<std::string> workers_;
  bool needs_schedule_ = false;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_OPERATION_OPERATION_H_
