#ifndef COMERA_SERVER_COORDINATOR_SYNCHRONIZE_HELD_CALLS_H_
#define COMERA_SERVER_COORDINATOR_SYNCHRONIZE_HELD_CALLS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/synchronize/assignment_writer.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// The Synchronize calls that wait for news, at most one for each worker. They
// are answered when the worker is to be told something, when their time is up,
// or when another call of the same worker comes. Not thread-safe; the arguments
// must outlive it.
class HeldCalls {
 public:
  HeldCalls(WorkerTable* workers, const AssignmentWriter* assignments)
      : workers_(workers), assignments_(assignments) {}

  // Keeps the worker's call, which may have no other one, until `deadline`.
  void Hold(WorkerState& worker, int64_t call, absl::Time deadline);
  // Answers the worker's held call, if it has one.
  void Answer(WorkerState& worker, Operation* op);
  // The same if the call's time is up.
  void AnswerIfExpired(WorkerState& worker, Operation* op);
  // Answers the calls of the workers that the operation has changed.
  void AnswerChanged(Operation* op);
  void AnswerAll(Operation* op);
  // Ends the worker's held call, if it has one, with an error.
  void Refuse(WorkerState& worker, const absl::Status& status, Operation* op);
  // The caller hung up.
  void Abandon(int64_t call);

 private:
  WorkerTable* const workers_;
  const AssignmentWriter* const assignments_;
  // The workers of the held calls.
  std::map<int64_t, std::string> holders_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SYNCHRONIZE_HELD_CALLS_H_
