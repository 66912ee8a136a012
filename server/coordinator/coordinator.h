#ifndef COMERA_SERVER_COORDINATOR_COORDINATOR_H_
#define COMERA_SERVER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/queue_service.pb.h"
#include "comera/v1/training_service.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/cluster_counts.h"
#include "server/coordinator/effects.h"
#include "server/coordinator/hang_watch.h"
#include "server/coordinator/job_table.h"
#include "server/coordinator/prepared_job.h"
#include "server/coordinator/queue_table.h"
#include "server/coordinator/retry_policy.h"
#include "server/coordinator/worker_table.h"
#include "server/runtime/id_source.h"
#include "server/scheduler/scheduler.h"

namespace comera::server {

// Decides what happens to jobs: a state machine over submissions, workers'
// reports and time.
//
// No locks, threads, IO or clock: one thread calls it, passes the time, and
// carries out the Effects before it tells anybody. After a restart, Load() with
// the stored records puts it back; running jobs keep their attempt and wait for
// their workers.
//
// Guarantees: a gang runs whole or not at all; a rank is given up only when its
// worker says that its process is gone, restarted, or was silent for
// node_lost_after ("cannot reach" is not "failed"); reports of older attempts
// change nothing; each progress report is taken once.
//
//   Effects effects;
//   auto job = coordinator.Submit(request, now, &effects);
//   store(effects), then reply
class Coordinator {
 public:
  struct Options {
    // A silent worker's ranks are given up after this.
    absl::Duration node_lost_after = absl::Seconds(60);
    // After a restart: how long workers have to report again.
    absl::Duration reattach_grace = absl::Seconds(60);
    // A worker silent for longer gets no new ranks.
    absl::Duration suspect_after = absl::Seconds(10);
    // A rank must report within this of its placement.
    absl::Duration start_deadline = absl::Minutes(5);
    // A wanted rank may be missing from its worker's report for this long.
    absl::Duration missing_rank_after = absl::Seconds(10);
    // After rank 0's result the other ranks may end by themselves for this
    // long, and the model's files may take that long to arrive.
    absl::Duration finish_grace = absl::Seconds(30);
    absl::Duration model_deadline = absl::Minutes(10);
    // A Synchronize call is held for at most this.
    absl::Duration max_hold = absl::Seconds(30);
    // What workers are told to wait between calls.
    absl::Duration sync_interval = absl::Seconds(1);
    size_t max_queued_jobs = 100000;
    // Ranks that make no progress.
    HangWatch::Options hang;
    // Waits between attempts, and what spreads them: a number in [0, 1).
    RetryBackoff retry_backoff;
    std::function<double()> jitter = [] { return 1.0; };
    // A worker silent for this long is asked, about as often, whether its
    // process is still there: where the machine itself says that it is gone,
    // nobody waits for node_lost_after.
    absl::Duration probe_after = absl::Seconds(3);
    // What workers show each other.
    std::string peer_key;
    // Of the coordinator's machine: a worker's loopback address means something
    // here only if it is on the same one.
    std::string host;
    SchedulerOptions scheduler;
    // A gang need not wait for slots that are unfit for longer.
    absl::Duration unfit_grace = absl::Minutes(2);
    // A worker that had so many hardware failures within this time takes no
    // more ranks until an operator resumes it; 0: never.
    int32_t exclude_after_failures = 3;
    absl::Duration failure_window = absl::Hours(1);
  };

  // `ids` must outlive the coordinator.
  Coordinator(const Options& options, IdSource* ids);

  // The records of an earlier coordinator; once, before anything else.
  void Load(std::vector<JobRecord> records, absl::Time now);

  // Stored queues and workers' policies; before Load. DataLoss.
  absl::Status LoadDocuments(const std::vector<Document>& queues,
                             const std::vector<Document>& workers);

  // Queues (coordinator_queues.cc). Errors: queue_service.proto.
  absl::StatusOr<v1::Queue> CreateQueue(const v1::CreateQueueRequest& request,
                                        absl::Time now, Effects* effects);
  absl::StatusOr<v1::Queue> UpdateQueue(const v1::UpdateQueueRequest& request,
                                        Effects* effects);
  absl::StatusOr<v1::DeleteQueueResponse> DeleteQueue(
      const v1::DeleteQueueRequest& request, Effects* effects);
  absl::StatusOr<v1::Queue> GetQueue(const std::string& name) const;
  absl::StatusOr<v1::ListQueuesResponse> ListQueues(
      const v1::ListQueuesRequest& request) const;

  // Errors of these: training_service.proto.
  absl::StatusOr<v1::Job> Pause(const v1::PauseJobRequest& request,
                                absl::Time now, Effects* effects);
  absl::StatusOr<v1::Job> Resume(const v1::ResumeJobRequest& request,
                                 absl::Time now, Effects* effects);
  absl::StatusOr<v1::JobExplanation> Explain(const std::string& name,
                                             absl::Time now) const;
  // What would become of a job that is submitted now.
  v1::Forecast Foresee(const v1::JobSpec& spec, const std::string& user,
                       absl::Time now) const;
  absl::StatusOr<v1::WorkerSummary> GetWorker(const std::string& name,
                                              absl::Time now) const;
  absl::StatusOr<v1::WorkerSummary> Drain(const v1::DrainWorkerRequest& request,
                                          absl::Time now, Effects* effects);
  absl::StatusOr<v1::WorkerSummary> ResumeWorker(
      const v1::ResumeWorkerRequest& request, absl::Time now, Effects* effects);

  // InvalidArgument: the request_id belongs to another spec or another user, or
  // there is no such queue. ResourceExhausted: too many jobs wait.
  absl::StatusOr<v1::Job> Submit(const PreparedJob& prepared, absl::Time now,
                                 Effects* effects);
  // The job that was made of this request already. NotFound; InvalidArgument:
  // as Submit().
  absl::StatusOr<v1::Job> FindSubmitted(const PreparedJob& prepared) const;

  // NotFound.
  absl::StatusOr<v1::Job> Cancel(const std::string& name,
                                 const std::string& reason, absl::Time now,
                                 Effects* effects);

  // Forgets a finished job's model. NotFound; FailedPrecondition: the job has
  // not finished.
  absl::StatusOr<v1::Job> RemoveModel(const std::string& name, absl::Time now,
                                      Effects* effects);

  // Takes a worker's report. The answer comes as a SynchronizeReply for `call`,
  // now or, while there is no news, from a later operation. `log_acks` go into
  // it as they are.
  void Synchronize(const v1::SynchronizeRequest& request,
                   const std::vector<v1::LogAck>& log_acks, int64_t call,
                   absl::Time now, Effects* effects);

  // The machine of the worker has no such process any more.
  void WorkerGone(const std::string& worker, const std::string& incarnation,
                  absl::Time now, Effects* effects);

  // The caller of a held call hung up.
  void Abandon(int64_t call);

  // Whether a log chunk of this attempt is to be kept.
  bool KeepsLog(const v1::LogChunk& chunk) const;

  // NotFound, Aborted: another attempt; InvalidArgument; ResourceExhausted.
  absl::Status CheckUpload(const v1::UploadArtifactHeader& header) const;
  // The file lies whole below the artifact's name. Errors of CheckUpload.
  absl::Status ArtifactStored(const v1::UploadArtifactHeader& header,
                              absl::Time now, Effects* effects);

  // What time alone changes; to be called about every second.
  void Tick(absl::Time now, Effects* effects);

  // Whether Schedule() could place something.
  bool NeedsSchedule() const { return needs_schedule_; }
  // Jobs that wait.
  size_t queued_count() const { return jobs_.queued_count(); }
  // Places queued gangs on free slots, and has running ones make room.
  void Schedule(absl::Time now, Effects* effects);

  // At most `limit` finished jobs that ended before then and that no unfinished
  // job begins with.
  std::vector<std::string> ExpiredJobs(absl::Time ended_before,
                                       size_t limit) const;
  // Removes those of the jobs that are finished. Their request_ids may be used
  // again.
  void Forget(const std::vector<std::string>& names, Effects* effects);

  // Answers all held calls, for a stop of the coordinator.
  void ReleaseHeldCalls(absl::Time now, Effects* effects);

  std::vector<v1::WorkerSummary> Workers(absl::Time now) const;
  // The same in numbers, in much less time.
  ClusterCounts CountCluster(absl::Time now) const;

 private:
  // Attempts (coordinator_attempts.cc).
  struct GangMember {
    std::string worker;
    int32_t slot = 0;
  };
  // A placement, by rank.
  struct Gang {
    std::string job;
    std::vector<GangMember> ranks;
  };
  void Place(const Gang& placement, absl::Time now, Effects* effects);
  void Advance(JobEntry& entry, absl::Time now, Effects* effects);
  void StopAttempt(JobEntry& entry);
  void AddFailure(JobEntry& entry, v1::FailureClass failure_class, int32_t rank,
                  const std::string& message, absl::Time now, Effects* effects);
  void RecordFailure(JobEntry& entry, v1::Failure failure, absl::Time now,
                     Effects* effects);
  void EndAttempt(JobEntry& entry, absl::Time now);
  void Succeed(JobEntry& entry, absl::Time now, Effects* effects);
  void RetryOrFail(JobEntry& entry, absl::Time now, Effects* effects);
  // To be tried again, now or after a wait; its place in the queue stays.
  void Requeue(JobEntry& entry, const v1::Failure& cause, absl::Time now,
               Effects* effects);
  void SetState(JobEntry& entry, v1::JobState state, const std::string& reason,
                absl::Time now, Effects* effects);
  void AddEvent(JobEntry& entry, v1::JobEvent event, absl::Time now,
                Effects* effects);
  // Gives up the worker's ranks; `why` continues "worker w ".
  void LoseMembers(WorkerState& worker, const std::string& why, absl::Time now,
                   Effects* effects);
  void TickAttempt(JobEntry& entry, absl::Time now, Effects* effects);

  // Recovery (coordinator_recovery.cc).
  // Stops the gang if one of its ranks hangs.
  void CheckHang(JobEntry& entry, absl::Time now, Effects* effects);
  // Something failed, and the attempt goes on.
  void AddIncident(JobEntry& entry, v1::Failure failure, absl::Time now,
                   Effects* effects);
  // Asks silent workers with ranks whether they are gone.
  void ProbeSilent(WorkerState& worker, absl::Time now, Effects* effects);
  // What the worker holds of training states; which jobs' it need not keep.
  void TakeCheckpoints(const v1::SynchronizeRequest& request,
                       WorkerState& worker, v1::SynchronizeResponse* response);
  // Where rank 0 of the job copies its checkpoints to and gets them from.
  void FillPeers(const JobEntry& entry, const WorkerState& worker,
                 v1::MemberAssignment* assignment);
  // Tells running jobs' workers who their peers are, if that has changed.
  void TouchPeers(absl::Time now);
  // Scheduling (coordinator_schedule.cc, coordinator_snapshot.cc).
  // A snapshot, and what its indices stand for.
  struct View {
    ClusterSnapshot cluster;
    std::vector<const WorkerState*> workers;
    std::vector<JobEntry*> jobs;
    std::vector<JobEntry*> running;
    absl::flat_hash_map<std::string, int32_t> positions;
    absl::flat_hash_map<std::string, int32_t> queues;
    absl::flat_hash_map<std::string, int32_t> users;

    int32_t UserNumber(const std::string& user);
    int32_t QueueNumber(const std::string& queue);
  };
  View Look(absl::Time now) const;
  void LookAtWorkers(absl::Time now, View* view) const;
  void LookAtRunning(absl::Time now, View* view) const;
  PendingJob ToPending(const JobEntry& entry, absl::Time now, View* view) const;
  bool IsUsable(const WorkerState& worker, absl::Time now) const;
  // After a restart: who holds the job's newest checkpoint is still to come.
  bool AwaitsHolder(const JobEntry& entry, absl::Time now) const;
  void Start(const View& view, const Placement& placement, absl::Time now,
             Effects* effects);
  void TakeOrder(const View& view, const StopOrder& order, absl::Time now);
  void TellReasons(const View& view, const Decision& decision,
                   Effects* effects);
  // Has the gang save a checkpoint and end; nothing is charged to the job.
  void StopGang(JobEntry& entry, Attempt::StopCause cause,
                const std::string& reason, absl::Time now);
  // All ranks of such a gang have ended.
  void EndStopped(JobEntry& entry, absl::Time now, Effects* effects);
  // Asks for more time than usual for the worker's ranks of such gangs.
  void FillStops(const WorkerState& worker,
                 v1::SynchronizeResponse* response) const;
  v1::JobExplanation ExplainQueued(const JobEntry& entry, absl::Time now) const;

  // Workers (coordinator_workers.cc).
  v1::WorkerSummary Summarize(const WorkerState& worker, absl::Time now) const;
  bool IsConnected(const WorkerState& worker, absl::Time now) const;
  void SetPolicy(WorkerState& worker, WorkerPolicy policy, Effects* effects);
  void NoteUnfit(WorkerState& worker, const v1::SynchronizeRequest& request,
                 absl::Time now);
  void CountHardwareFailure(const JobEntry& entry, const v1::Failure& failure,
                            absl::Time now, Effects* effects);

  // Synchronize (coordinator_synchronize.cc).
  WorkerState* Admit(const v1::SynchronizeRequest& request, int64_t call,
                     absl::Time now, Effects* effects);
  void TakeRanks(const v1::SynchronizeRequest& request, WorkerState& worker,
                 absl::Time now, Effects* effects);
  void TakeRank(const v1::MemberStatus& status, JobEntry& entry, absl::Time now,
                Effects* effects);
  void TakeMissingRanks(const v1::SynchronizeRequest& request, JobEntry& entry,
                        absl::Time now, Effects* effects);
  void TakeReports(const v1::SynchronizeRequest& request, absl::Time now,
                   Effects* effects, v1::SynchronizeResponse* response);
  void TakeRendezvous(const v1::SynchronizeRequest& request);
  void AddForget(const v1::SynchronizeRequest& request,
                 v1::SynchronizeResponse* response);
  JobEntry* FindAttempt(const std::string& job, int64_t attempt);
  void FillDesired(WorkerState& worker, v1::SynchronizeResponse* response);
  void ReplyHeld(WorkerState& worker, absl::Time now, Effects* effects);

  // Adds what the queues' jobs have and want.
  void AddUse(const std::vector<v1::Queue*>& queues) const;

  // Marks the job as changed in this operation.
  void Change(JobEntry& entry);
  // Marks the worker's answer as changed in this operation.
  void Touch(const std::string& worker);
  // Ends every operation: collects changed records, answers touched workers.
  void Finish(absl::Time now, Effects* effects);

  const Options options_;
  IdSource* const ids_;
  JobTable jobs_;
  WorkerTable workers_;
  QueueTable queues_;
  bool needs_schedule_ = true;
  // Workers came or went since TouchPeers() last told.
  bool peers_changed_ = false;
  absl::Time next_touch_peers_ = absl::InfinitePast();
  // Some elastic job has fewer ranks than it wants.
  bool may_grow_ = false;
  // When an earlier coordinator's records were taken over.
  absl::Time loaded_ = absl::InfinitePast();
  absl::Time cpu_spare_since_ = absl::InfiniteFuture();
  absl::Time gpu_spare_since_ = absl::InfiniteFuture();
  std::set<std::string> changed_;
  std::set<std::string> touched_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_COORDINATOR_H_
