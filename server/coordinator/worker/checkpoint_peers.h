#ifndef COMERA_SERVER_COORDINATOR_WORKER_CHECKPOINT_PEERS_H_
#define COMERA_SERVER_COORDINATOR_WORKER_CHECKPOINT_PEERS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/job/forgotten_jobs.h"
#include "server/coordinator/job/job_checkpoints.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/worker/store_listings.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// Knows which workers hold jobs' training states, and decides where member 0 of
// a gang copies its checkpoints to and fetches them from.
//
// Workers do not trust one another, and a worker may say that it has states of
// any job. Its word counts for jobs that were placed on it, or of which it was
// told to keep or to fetch a state (MayHoldStates). Of the shared store, which
// all workers list, more than one stranger must say the same (StoreListings).
// What is removed for good is removed only for newer states that the job's own
// member 0 has announced. Not thread-safe.
class CheckpointPeers {
 public:
  // All must outlive it.
  CheckpointPeers(const CoordinatorOptions* options, JobTable* jobs,
                  WorkerTable* workers)
      : options_(options), jobs_(jobs), workers_(workers), store_(workers) {}

  // Returns the key by which the worker is to judge the grants of others, and
  // from now on seals grants for it with that key. It changes every few
  // minutes.
  std::string RenewGrantKey(absl::Time now, WorkerState* worker) const;

  // Applies what the worker holds, and tells it which jobs have ended, so that
  // it need not keep their states, and what it is to delete from the store. A
  // worker that has copies of an ended job's states in its memory need not keep
  // them before that either, once another one's disk or the store has all that
  // counts: that memory is for jobs that run.
  void ApplyHeld(const v1::SynchronizeRequest& request, WorkerState& worker,
                 v1::SynchronizeResponse* response, Operation* op);
  // Fills in the peers of member 0, which runs on `worker`. With
  // `assignment->start()` its sources are those that hold that very state. The
  // answer must not leave before the changed records are stored: they name who
  // may hold states from now on.
  void AssignPeers(const JobEntry& entry, const WorkerState& worker,
                   v1::MemberAssignment* assignment, Operation* op) const;
  // The workers that by their newest reports, however old, have states of the
  // job, or other files of it, on their disks or in their memories, and whose
  // word counts.
  std::vector<const WorkerState*> Holders(const std::string& job) const;
  // The job's states in the shared store, as far as what workers say of it is
  // believed.
  std::vector<v1::HeldCheckpoint> Stored(const JobEntry& entry) const {
    return Stored(entry, StoreListings::kNobody, nullptr);
  }

  // The worker is known no more.
  void Forget(const std::string& worker);
  // Ends what lost and forgotten workers said of the store, once another one
  // knows better. To be called now and then.
  void ReviewStore(Operation* op);
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
  // The jobs with whose states jobs that wait or run begin, once somebody has
  // asked.
  using StartedFrom = std::optional<std::set<std::string>>;
  // One report, and what it was found to mean so far.
  struct Report {
    const WorkerState& worker;
    v1::SynchronizeResponse* const response;
    Operation* const op;
    // Jobs of which it says that it has something there, whether its word
    // counts or not.
    std::set<std::string> holds_now;
    // Jobs of which the worker had something on its disk or in its memory by
    // its report before.
    std::set<std::string> held_before;
    StoreListings::Changes stored;
    StartedFrom started_from;
  };
  // The same, and adds to `listed` how many states this lister lists.
  std::vector<v1::HeldCheckpoint> Stored(const JobEntry& entry, size_t lister,
                                         size_t* listed) const;
  // Brings the job in line with a report.
  void ApplyToJob(const std::string& name, Report* report);
  // Tells the worker which of the states that it lists are to be deleted from
  // the store, and notes in `held` that they are gone.
  void ExpireStored(const JobEntry& entry, bool over, Report* report,
                    HeldReport* held);
  // Adds the states in the store to `held`, but not one that an attempt could
  // not get.
  static void AddStored(const JobEntry& entry, absl::Time now,
                        std::vector<v1::HeldCheckpoint> stored,
                        HeldReport* held);
  // Adds workers that are to hold copies, other machines first, and among them
  // those of the gang: they are likely to be part of the next one.
  void AddReplicas(const JobEntry& entry, const WorkerState& worker,
                   v1::MemberAssignment* assignment) const;
  // Adds what lets the attempt's member 0 ask the other worker for the job's
  // states.
  void SetPeer(const JobEntry& entry, const WorkerState& worker,
               v1::Peer* peer) const;
  // Tells a worker that the states of a forgotten job may go.
  void ExpireForgotten(const std::string& job, Report* report);
  // Whether nobody needs the job's states any more.
  bool AreOver(const JobEntry& entry, absl::Time now,
               StartedFrom* started_from) const;
  // Whether the worker has copies of an ended job's states in its memory, and
  // the job loses nothing with all that the worker has.
  bool HoldsSpareCopies(const JobEntry& entry, const Report& report) const;

  const CoordinatorOptions* const options_;
  JobTable* const jobs_;
  WorkerTable* const workers_;
  // The workers of Holders() by job.
  std::map<std::string, std::set<std::string>> holders_;
  StoreListings store_;
  ForgottenJobs forgotten_;
  bool peers_changed_ = false;
  absl::Time next_announcement_ = absl::InfinitePast();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_CHECKPOINT_PEERS_H_
