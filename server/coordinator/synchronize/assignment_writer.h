#ifndef COMERA_SERVER_COORDINATOR_SYNCHRONIZE_ASSIGNMENT_WRITER_H_
#define COMERA_SERVER_COORDINATOR_SYNCHRONIZE_ASSIGNMENT_WRITER_H_

#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/worker/checkpoint_peers.h"
#include "server/coordinator/worker/worker_state.h"

namespace comera::server {

// Writes what a worker is to do: the members that it is to run, end with a
// checkpoint, or kill, and what their gangs exchange. The answer depends on the
// tables alone, not on the request. Not thread-safe.
class AssignmentWriter {
 public:
  // All must outlive it.
  AssignmentWriter(const CoordinatorOptions* options, const JobTable* jobs,
                   const CheckpointPeers* peers)
      : options_(options), jobs_(jobs), peers_(peers) {}

  // Fills in the worker's answer.
  void Write(WorkerState* told, v1::SynchronizeResponse* response,
             Operation* op) const;

 private:
  void WriteMembers(const JobEntry& entry, const WorkerState& worker,
                    v1::SynchronizeResponse* response, Operation* op) const;
  void WriteAssignment(const JobEntry& entry, const GangMember& member,
                       const WorkerState& worker, int32_t local_rank,
                       v1::MemberAssignment* assignment, Operation* op) const;
  // Names the other job's state that the job begins with.
  void WriteStartFrom(const JobEntry& entry,
                      v1::MemberAssignment* assignment) const;
  // What other workers' members wrote for the gangs here. All gangs share the
  // room in the answer, so that no job's entries keep the worker from reading
  // it.
  void WriteRendezvous(const WorkerState& worker,
                       v1::SynchronizeResponse* response) const;
  // Members that somebody asked to stop get more time than usual to save a
  // checkpoint.
  void WriteStops(const JobEntry& entry, const WorkerState& worker,
                  v1::SynchronizeResponse* response) const;

  const CoordinatorOptions* const options_;
  const JobTable* const jobs_;
  const CheckpointPeers* const peers_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SYNCHRONIZE_ASSIGNMENT_WRITER_H_
