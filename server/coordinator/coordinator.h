#ifndef COMERA_SERVER_COORDINATOR_COORDINATOR_H_
#define COMERA_SERVER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/model_service.pb.h"
#include "comera/v1/queue_service.pb.h"
#include "comera/v1/training_service.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/job/prepared_job.h"
#include "server/coordinator/lifecycle/failure_recorder.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/operation/effects.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/queue/queue_directory.h"
#include "server/coordinator/queue/queue_table.h"
#include "server/coordinator/schedule/gang_scheduler.h"
#include "server/coordinator/schedule/job_explainer.h"
#include "server/coordinator/schedule/start_chooser.h"
#include "server/coordinator/synchronize/assignment_writer.h"
#include "server/coordinator/synchronize/held_calls.h"
#include "server/coordinator/synchronize/member_reports.h"
#include "server/coordinator/synchronize/synchronize_exchange.h"
#include "server/coordinator/synchronize/worker_monitor.h"
#include "server/coordinator/worker/checkpoint_peers.h"
#include "server/coordinator/worker/cluster_counts.h"
#include "server/coordinator/worker/worker_exclusion.h"
#include "server/coordinator/worker/worker_table.h"
#include "server/runtime/id_source.h"

namespace comera::server {

// Decides what happens to jobs: a state machine over submissions, workers'
// reports and time.
//
// The life of a job: Submit() queues it; Schedule() places its gang on free
// slots; each worker's Synchronize() is told which members to run and reports
// how they are; Tick() notices what does not happen in time; when all members
// have ended, the job ends too or is queued again. The parts below do the work,
// and Coordinator puts them together.
//
// It has no locks, threads, IO or clock: one thread calls it, passes the time,
// and carries out the Effects before it answers anybody. After a restart,
// Load() with the stored records puts it back; running jobs keep their attempt
// and wait for their workers.
//
// Guarantees: a gang runs whole or not at all; a member is given up only when
// its worker says that its process is gone, restarted, or was silent for
// node_lost_after ("cannot reach" is not "failed"); reports of older attempts
// change nothing; each progress report is applied once.
//
//   Effects effects;
//   auto job = coordinator.Submit(request, now, &effects);
//   store(effects), then reply
class Coordinator {
 public:
  using Options = CoordinatorOptions;

  // `ids` must outlive the coordinator.
  Coordinator(const Options& options, IdSource* ids);

  // Takes over the records of an earlier coordinator; once, before anything
  // else.
  void Load(std::vector<JobRecord> records, absl::Time now);
  // Takes over stored queues, workers' policies and forgotten jobs; before
  // Load(). DataLoss.
  absl::Status LoadDocuments(const std::vector<Document>& queues,
                             const std::vector<Document>& workers,
                             const std::vector<Document>& forgotten);

  // Jobs. Errors of these, where not written here: training_service.proto.

  // InvalidArgument: the request_id belongs to another spec or another user, or
  // there is no such queue. ResourceExhausted: too many jobs wait.
  absl::StatusOr<v1::Job> Submit(const PreparedJob& prepared, absl::Time now,
                                 Effects* effects);
  // The job that was made of this request already. NotFound; InvalidArgument as
  // of Submit().
  absl::StatusOr<v1::Job> FindSubmitted(const PreparedJob& prepared) const;
  // NotFound.
  absl::StatusOr<v1::Job> Cancel(const std::string& name,
                                 const std::string& reason, absl::Time now,
                                 Effects* effects);
  absl::StatusOr<v1::Job> Pause(const v1::PauseJobRequest& request,
                                absl::Time now, Effects* effects);
  // `user` is told of in the incident of a start_over; empty: unknown. An ended
  // job is queued only if a new one might be: ResourceExhausted: too many jobs
  // wait. FailedPrecondition: its queue, or the state that it begins with, is
  // gone.
  absl::StatusOr<v1::Job> Resume(const v1::ResumeJobRequest& request,
                                 absl::Time now, Effects* effects,
                                 const std::string& user = "");
  absl::StatusOr<v1::JobExplanation> Explain(const std::string& name,
                                             absl::Time now) const;
  // What would become of a job that is submitted now.
  v1::Forecast Forecast(const v1::JobSpec& spec, const std::string& user,
                        absl::Time now) const;

  // Scheduling and time.

  // Whether Schedule() could place something.
  bool NeedsSchedule() const { return scheduler_.needed(); }
  size_t queued_count() const { return jobs_.index().queued_count(); }
  // Places queued gangs on free slots, and has running ones make room.
  void Schedule(absl::Time now, Effects* effects);
  // Nobody was heard for a while, which was not the workers' fault: they have
  // as long to report again as after a restart.
  void AwaitReports(absl::Time now);
  // What time alone changes; to be called about every second.
  void Tick(absl::Time now, Effects* effects);

  // Workers' calls.

  // Applies a worker's report. The answer comes as a SynchronizeReply for
  // `call`, now or, while there is no news, from a later operation. `log_acks`
  // go into it as they are.
  void Synchronize(const v1::SynchronizeRequest& request,
                   const std::vector<v1::LogAck>& log_acks, int64_t call,
                   absl::Time now, Effects* effects);
  // The caller of a held call hung up.
  void Abandon(int64_t call) { held_calls_.Abandon(call); }
  // Answers all held calls, for a stop of the coordinator.
  void ReleaseHeldCalls(absl::Time now, Effects* effects);
  // The machine of the worker has no such process any more (see WorkerProbe).
  void ConfirmWorkerExit(const std::string& worker,
                         const std::string& incarnation, absl::Time now,
                         Effects* effects);
  // Whether a log chunk that this worker brings is to be kept.
  bool KeepsLog(const v1::LogChunk& chunk, const std::string& worker,
                absl::Time now) const;
  // Whether the worker (empty: unknown) may upload the file. Errors of
  // FindUploader.
  absl::Status CheckUpload(const v1::UploadArtifactHeader& header,
                           const std::string& worker) const;
  // Bytes of the files that the present attempts of the user's jobs have
  // uploaded; null: those of all users' jobs.
  int64_t UploadedBytes(const std::string* user) const;
  // The file lies whole below the artifact's name. Errors of CheckUpload.
  absl::Status ArtifactStored(const v1::UploadArtifactHeader& header,
                              const std::string& worker, absl::Time now,
                              Effects* effects);
  // Whether a job that the worker runs, or is about to run, needs the
  // checkpoint: its own, or the one that it starts from.
  bool NeedsCheckpoint(const std::string& worker,
                       const std::string& checkpoint) const;
  // Digests of the dataset versions that those jobs read.
  std::vector<std::string> NeededDatasets(const std::string& worker) const;

  // Workers as operators see them.

  std::vector<v1::WorkerSummary> Workers(absl::Time now) const;
  ClusterCounts CountCluster(absl::Time now) const;
  absl::StatusOr<v1::WorkerSummary> GetWorker(const std::string& name,
                                              absl::Time now) const;
  // Connected workers that serve models and can be reached from this machine;
  // those that take no members come first, then those with more idle slots.
  std::vector<v1::WorkerSummary> ModelServers(absl::Time now) const;
  absl::StatusOr<v1::WorkerSummary> Drain(const v1::DrainWorkerRequest& request,
                                          absl::Time now, Effects* effects);
  absl::StatusOr<v1::WorkerSummary> ResumeWorker(
      const v1::ResumeWorkerRequest& request, absl::Time now, Effects* effects);
  // Forgets a worker that is gone, and what was decided about it.
  absl::StatusOr<v1::DeleteWorkerResponse> DeleteWorker(
      const v1::DeleteWorkerRequest& request, absl::Time now, Effects* effects);

  // Queues. Errors: queue_service.proto.

  absl::StatusOr<v1::Queue> CreateQueue(const v1::CreateQueueRequest& request,
                                        absl::Time now, Effects* effects);
  absl::StatusOr<v1::Queue> UpdateQueue(const v1::UpdateQueueRequest& request,
                                        Effects* effects);
  absl::StatusOr<v1::DeleteQueueResponse> DeleteQueue(
      const v1::DeleteQueueRequest& request, Effects* effects);
  absl::StatusOr<v1::Queue> GetQueue(const std::string& name) const {
    return queue_directory_.Get(name);
  }
  absl::StatusOr<v1::ListQueuesResponse> ListQueues(
      const v1::ListQueuesRequest& request,
      const QueueDirectory::Filter& visible) const {
    return queue_directory_.List(request, visible);
  }

  // PermissionDenied: the job has a program, and the submitter may not run
  // programs in its queue.
  absl::Status CheckMayRun(const v1::JobSpec& spec,
                           const Submitter& submitter) const;
  // PermissionDenied: only administrators may run programs of their own in the
  // queue.
  absl::Status CheckLetsUsersRunPrograms(const std::string& queue) const;

  // Finished jobs.

  // Removes a finished job's model. NotFound; FailedPrecondition: the job has
  // not finished, or the model is kept.
  absl::StatusOr<v1::Job> RemoveModel(const std::string& name, absl::Time now,
                                      Effects* effects);
  // Each returns the job of the model. Errors: kept_models.h.
  absl::StatusOr<v1::Job> PinModel(const std::string& name, bool pinned,
                                   absl::Time now, Effects* effects);
  // The job of the model that the alias stands for; null: of none.
  const v1::Job* FindModelAlias(const std::string& alias) const;
  absl::StatusOr<v1::Job> SetModelAlias(const v1::SetModelAliasRequest& request,
                                        absl::Time now, Effects* effects);
  absl::StatusOr<v1::Job> RemoveModelAlias(const std::string& alias,
                                           absl::Time now, Effects* effects);
  // From now on, states of failed and cancelled jobs are kept for that much
  // longer, since the clock leads.
  void SetClockLead(absl::Duration lead) { options_.clock_lead = lead; }
  // The clock leads all that is known by so much, and is not believed: the jobs
  // that Load() takes over have not run in that time. Call it before Load().
  void DoubtClock(absl::Duration lead) { doubted_lead_ = lead; }
  // Forgets one finished job. Errors: training_service.proto.
  absl::Status Delete(const std::string& name, Effects* effects);
  // At most `limit` finished jobs that ended before then, that no unfinished
  // job begins with, and that have no model that is kept.
  std::vector<std::string> ExpiredJobs(absl::Time ended_before,
                                       size_t limit) const;
  // Removes those of the jobs that are finished. Their request_ids may be used
  // again.
  void Forget(const std::vector<std::string>& names, Effects* effects);

 private:
  // The error of queueing another job, if too many wait.
  absl::Status CheckQueueHasRoom() const;
  // Whether the specification's start_from may be used.
  absl::Status CheckSource(const v1::JobSpec& spec,
                           const std::string& user) const;
  // Whether an ended job may be queued again; see Resume().
  absl::Status CheckMayQueueAgain(const JobEntry& entry, bool start_over) const;
  // Ends an operation: numbers and collects the changed records, and answers
  // changed workers.
  void Commit(Operation* op);

  Options options_;
  absl::Duration doubted_lead_;
  IdSource* const ids_;
  JobTable jobs_;
  WorkerTable workers_;
  QueueTable queues_;
  // The parts, each after those that it uses.
  QueueDirectory queue_directory_;
  CheckpointPeers peers_;
  WorkerExclusion exclusion_;
  FailureRecorder failures_;
  JobLifecycle lifecycle_;
  MemberReports members_;
  AssignmentWriter assignments_;
  HeldCalls held_calls_;
  WorkerMonitor monitor_;
  SynchronizeExchange exchange_;
  StartChooser starts_;
  GangScheduler scheduler_;
  JobExplainer explainer_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_COORDINATOR_H_
