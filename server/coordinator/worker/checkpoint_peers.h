#ifndef COMERA_SERVER_COORDINATOR_WORKER_CHECKPOINT_PEERS_H_
#define COMERA_SERVER_COORDINATOR_WORKER_CHECKPOINT_PEERS_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/job/forgotten_jobs.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// Knows which workers hold jobs' training states, and decides where member 0 of
// a gang copies its checkpoints to and fetches them from. Not thread-safe.
class CheckpointPeers {
 public:
  // All must outlive it.
  CheckpointPeers(const CoordinatorOptions* options, JobTable* jobs,
                  WorkerTable* workers)
      : options_(options), jobs_(jobs), workers_(workers) {}

  // Returns the key by which the worker is to judge the grants of others, and
  // from now on seals grants for it with that key. It changes every few
  // minutes.
  std::string RenewGrantKey(absl::Time now, WorkerState* worker) const;

  // Applies what the worker holds, and tells it which jobs have ended, so that
  // it need not keep their states, and what is to be deleted from the store. A
  // worker that has copies of an ended job's states in its memory need not keep
  // them before that either, once another one's disk or the store has all that
  // counts: that memory is for jobs that run.
  void ApplyHeld(const v1::SynchronizeRequest& request, WorkerState& worker,
                 v1::SynchronizeResponse* response, Operation* op);
  // Fills in the peers of member 0, which runs on `worker`. With
  // `assignment->start()` its sources are those that hold that very state.
  void AssignPeers(const JobEntry& entry, const WorkerState& worker,
                   v1::MemberAssignment* assignment) const;
  // The workers that by their newest reports, however old, hold states of the
  // job or know of states in the shared store.
  std::vector<const WorkerState*> Holders(const std::string& job) const;

  // The worker is known no more.
  void Forget(const std::string& worker);
  // Takes over the stored documents of ForgottenJobs.
  void LoadForgotten(const std::vector<Document>& documents) {
    forgotten_.Load(documents);
  }
  // The job, which has run, is known no more: workers that still have its
  // training states, or find them in the shared store, are told that they may
  // go. Appends what is to be stored.
  void ForgetJob(const std::string& job, std::vector<Document>* documents) {
    forgotten_.Add(job, documents);
  }

  // Workers came or went, or have another address.
  void MarkPeersChanged() { peers_changed_ = true; }
  // If they have, gives the active jobs' workers new answers, once in a while.
  void Announce(Operation* op);

 private:
  // Brings the job in line with a report; `before` is what the worker had
  // reported last.
  void ApplyToJob(const std::string& name, const WorkerState& worker,
                  const std::vector<v1::HeldCheckpoint>& before,
                  v1::SynchronizeResponse* response, Operation* op);
  // Adds workers that are to hold copies, other machines first, and among them
  // those of the gang: they are likely to be part of the next one.
  void AddReplicas(const JobEntry& entry, const WorkerState& worker,
                   v1::MemberAssignment* assignment) const;
  // Adds what lets the attempt's member 0 ask the other worker for the job's
  // states.
  void SetPeer(const JobEntry& entry, const WorkerState& worker,
               v1::Peer* peer) const;
  // Tells a worker that the states of a forgotten job may go.
  void ExpireForgotten(const std::string& job, const WorkerState& worker,
                       v1::SynchronizeResponse* response) const;
  // Whether a job that waits or runs begins with a state of this one.
  bool IsStartedFrom(const std::string& job) const;
  bool IsDurable(const std::string& job, const v1::HeldCheckpoint& held) const;
  // Whether the worker has copies of an ended job's states in its memory, and
  // the job loses nothing with all that the worker has.
  bool HoldsSpareCopies(const JobEntry& entry, const WorkerState& worker) const;

  const CoordinatorOptions* const options_;
  JobTable* const jobs_;
  WorkerTable* const workers_;
  // The workers of Holders() by job.
  std::map<std::string, std::set<std::string>> holders_;
  ForgottenJobs forgotten_;
  bool peers_changed_ = false;
  absl::Time next_announcement_ = absl::InfinitePast();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_CHECKPOINT_PEERS_H_
