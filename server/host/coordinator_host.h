#ifndef COMERA_SERVER_HOST_COORDINATOR_HOST_H_
#define COMERA_SERVER_HOST_COORDINATOR_HOST_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/steady_time.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/job/prepared_job.h"
#include "server/host/change_listeners.h"
#include "server/host/clock_check.h"
#include "server/host/commit.h"
#include "server/host/dataset_pinner.h"
#include "server/host/disk_guard.h"
#include "server/host/engine_host.h"
#include "server/host/idle_streams.h"
#include "server/host/job_admission.h"
#include "server/host/job_observer.h"
#include "server/host/job_outbox.h"
#include "server/host/job_retention.h"
#include "server/host/model_uploads.h"
#include "server/host/pending_replies.h"
#include "server/host/store_follower.h"
#include "server/host/worker_probe.h"
#include "server/metrics/coordinator_metrics.h"
#include "server/rpc/user_quota.h"
#include "server/runtime/event_loop.h"
#include "server/runtime/log_files.h"
#include "server/store/change_feed.h"
#include "server/store/job_store.h"
#include "server/store/store_thread.h"
#include "server/view/job_directory.h"
#include "server/view/progress_hub.h"

namespace comera::server {

// Entry of the audit log for a job that a call changed.
using JobAudit = std::function<AuditRow(const v1::Job&, absl::Time)>;

// Runs a Coordinator: its event loop, its store, the view that clients see and
// the thread for files. Knows nothing of gRPC.
//
// Threads: methods of the first group may be called from any thread. Their
// callbacks run on the loop, once each, after everything that they report is
// durable. Methods of the second group are for closures on the loop.
//
// Life cycle: Stop() comes first (held calls and streams end, new calls get
// Unavailable), then the RPC server goes, then the destructor flushes the
// store.
class CoordinatorHost : public EngineHost<Coordinator, Effects> {
 public:
  using Retention = JobRetention::Options;
  struct Options {
    std::string data_dir;
    Coordinator::Options coordinator;
    ProgressHub::Options hub;
    LogFiles::Options logs;
    // An infinite one leaves ticks to TickNow().
    absl::Duration tick_interval = absl::Seconds(1);
    // Set while another coordinator leads. This one then shows, a tick later,
    // what the leader writes into the store, and changes nothing.
    ChangeFeed* follow = nullptr;
    // With `follow`: called on the store's thread after each look at the store.
    std::function<void(JobStore*)> on_follow;
    // With `follow`: the error that sends a client to the leader.
    std::function<absl::Status()> not_leader;
    Retention retention;
    // Bytes of all models and checkpoints in the data folder; 0: any number.
    int64_t model_quota_bytes = int64_t{1} << 40;
    // Uploads of models that bring no data for so long are ended; how often
    // they are looked for.
    absl::Duration idle_upload = absl::Seconds(30);
    absl::Duration idle_check = absl::Seconds(1);
    // The midnight, UTC, of the day that an operator has confirmed
    // (clock_check.h).
    absl::Time confirmed_day = absl::InfinitePast();
    // A monotonic clock, which measures what has passed since the start.
    std::function<absl::Time()> steady_now = SteadyNow;
    // Makes the host read-only while the disk is full; may be null. Must
    // outlive the host.
    DiskGuard* disk = nullptr;
    // Called on the loop after the read-only mode has begun or ended.
    std::function<void(bool read_only)> on_read_only;
    // Metrics to update; may be null. Must outlive the host.
    CoordinatorMetrics* metrics = nullptr;
    // May be null. Must outlive the host.
    JobOutbox* outbox = nullptr;
  };
  // Loads the store's jobs. Errors of JobStore::LoadJobs. `on_failure` is
  // called at most once, from some thread, when the store can write no more;
  // the process should then end and start again. All pointers must outlive the
  // host.
  static absl::StatusOr<std::unique_ptr<CoordinatorHost>> Start(
      const Options& options, JobStore* store, IdSource* ids, Clock* clock,
      StatusCallback on_failure);
  ~CoordinatorHost() override;

  // Any thread.
  // The clock's time.
  using EngineHost::now;
  // Sets what knows the users' limits, before any job is created. Unless it is
  // called there are none.
  void SetQuotas(QuotaFinder quotas);
  // `audit`, if set, makes an entry of the audit log, which becomes durable
  // together with the change. ResourceExhausted: the user is at a limit.
  void CreateJob(PreparedJob job, Callback<v1::Job> done,
                 JobAudit audit = nullptr);
  // Calls back at once, on the calling thread.
  void GetJob(std::string name, Callback<v1::Job> done);
  // The directory's entry of the job; nothing if there is no such job.
  std::optional<JobDirectory::Entry> FindJob(const std::string& name) const {
    return directory_.GetEntry(name);
  }
  JobDirectory::Counts CountJobs() const { return directory_.counts(); }
  int64_t dropped_samples() const { return hub_.dropped_samples(); }
  // JobDirectory::List, on the calling thread: some milliseconds of work.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(
      const v1::ListJobsRequest& request,
      const JobDirectory::QueueFilter& visible) const {
    return directory_.List(request, visible);
  }
  void CancelJob(std::string name, std::string reason, Callback<v1::Job> done,
                 JobAudit audit = nullptr);
  // Errors of Coordinator::Resume. ResourceExhausted: too many jobs of its
  // user wait. FailedPrecondition: a dataset version that an ended job reads
  // was deleted.
  void ResumeJob(v1::ResumeJobRequest request, std::string user,
                 Callback<v1::Job> done, JobAudit audit = nullptr);
  void ListWorkers(Callback<v1::ListWorkersResponse> done);
  // Answers a query of the coordinator's present state. Unavailable: the host
  // stops, or another coordinator leads.
  template <typename T>
  using Query =
      std::function<absl::StatusOr<T>(const Coordinator&, absl::Time now)>;
  template <typename T>
  void RunQuery(Query<T> query, Callback<T> done);
  // Returns the call's number for Abandon().
  int64_t Synchronize(v1::SynchronizeRequest request,
                      Callback<v1::SynchronizeResponse> done);
  void Abandon(int64_t call);
  // Sets who resolves the dataset paths of new jobs, before any job is created.
  // Without a pinner such jobs are refused. It must live until Stop().
  void SetDatasetPinner(DatasetPinner* pinner) { pinner_ = pinner; }
  // Whether the spec's dataset paths mean something. Errors of DatasetPinner.
  void CheckDatasets(v1::JobSpec spec, StatusCallback done);
  // `worker` uploads; empty: unknown. Tells what the upload may add.
  void CheckUpload(v1::UploadArtifactHeader header, std::string worker,
                   Callback<UploadRoom> done);
  void ArtifactStored(v1::UploadArtifactHeader header, std::string worker,
                      StatusCallback done);
  // With `follow`: calls back on the loop once all that the leader has
  // committed by now is shown here.
  void CatchUp(std::function<void()> done);
  // A batch of others, in order with the coordinator's; `done` and `read` run
  // on the store's thread.
  // ResourceExhausted, on the calling thread: the host is read-only, and the
  // batch does more than delete documents and add to the audit log.
  void Write(StoreBatch batch, StatusCallback done);
  void Read(std::function<void(JobStore*)> read);
  // Runs Coordinator::Tick at the clock's time and waits for it; for tests.
  void TickNow();
  void Stop();
  // Whether changes are taken now: of jobs and of all that goes into the data
  // folder. ResourceExhausted: not while the disk is full. Workers are not
  // heard meanwhile, and nothing is decided that time alone would change.
  absl::Status CheckWritable() const override {
    return options_.disk == nullptr ? absl::OkStatus()
                                    : options_.disk->CheckWritable();
  }
  // The same for a change that makes room, such as a deletion.
  absl::Status CheckMakesRoom() const {
    return options_.disk == nullptr ? absl::OkStatus()
                                    : options_.disk->CheckMakesRoom();
  }
  // Removes a finished job's model, also while the host is read-only. Errors of
  // Coordinator::RemoveModel; ResourceExhausted: nothing at all can be written.
  void RemoveModel(std::string name, Callback<v1::Job> done);
  // Forgets a finished job, and removes its files; also while the host is
  // read-only. Errors of Coordinator::Delete; ResourceExhausted as above.
  void DeleteJob(std::string name, StatusCallback done);
  // Rises with every change of jobs and sweeps that readers may see, before
  // they are notified of it; samples of progress do not count.
  int64_t visible_changes() const { return visible_changes_; }
  // Counts a change of what others keep beside the jobs.
  void AddVisibleChange() { ++visible_changes_; }
  EventLoop& loop() override { return *loop_; }
  // The thread that may block on files.
  EventLoop& io() { return *io_; }
  // Uploads of models that are under way. IO thread only.
  ModelUploads& model_uploads() { return model_uploads_; }
  IdleStreams& idle_uploads() { return idle_uploads_; }
  const std::string& data_dir() const { return options_.data_dir; }
  // How far the clock led at the start, if it was not believed (ClockTrust).
  absl::Duration clock_lead_at_start() const { return clock_lead_at_start_; }

  // Loop only, but for functions of the directory that say otherwise.
  const JobDirectory& directory() const { return directory_; }
  UserQuota QuotaOf(const std::string& user) const {
    return quotas_ == nullptr ? UserQuota() : quotas_(user);
  }
  ProgressHub& hub() { return hub_; }
  // At most one; must outlive the host.
  void SetObserver(JobObserver* observer) { observer_ = observer; }
  // Null once the host stops.
  StoreThread* store() override { return stopping_ ? nullptr : store_.get(); }
  bool stopping() const { return stopping_; }
  // Reads on the IO thread, answers on the loop.
  void ReadLog(std::string job, int64_t attempt, int32_t rank, int64_t offset,
               size_t max_bytes, Callback<std::string> done);
  // Rises whenever a job changes or one of its logs grows.
  int64_t Changes(const std::string& job) const;
  // `wake` is called on every such change, and when the host stops, until it is
  // removed by the returned number. An empty job: only for the stop.
  int64_t AddListener(const std::string& job, std::function<void()> wake) {
    return listeners_.Add(job, std::move(wake));
  }
  void RemoveListener(const std::string& job, int64_t id) {
    listeners_.Remove(job, id);
  }

 private:
  CoordinatorHost(const Options& options, IdSource* ids, Clock* clock);

  // Before the loop starts: shows what the leader writes after `change`.
  void StartFollowing(int64_t change);
  // Loop only. `datasets.hold` lives until `done` was called. Without datasets,
  // only a repeated request has a job; other requests end with their error.
  void Submit(PreparedJob job, const absl::StatusOr<PinnedDatasets>& datasets,
              const JobAudit& audit, Callback<v1::Job> done);
  void PinDatasets(v1::JobSpec spec, Callback<PinnedDatasets> done);
  // Finds the versions that an ended job was to read. FailedPrecondition: one
  // of them was deleted.
  void PinAgain(const v1::Job& job, Callback<PinnedDatasets> done);

  // Loop only; `header` is that of a job that there is.
  UploadRoom UploadCapacity(const v1::UploadArtifactHeader& header) const;

  // EngineHost.
  StoreBatch ToBatch(const Effects& effects) const override;
  void OnCommitted(Effects effects) override;
  void OnCommitFailed(const absl::Status& status,
                      const Effects& effects) override;
  void AfterOperation() override { MaybeSchedule(); }
  // Shows the events to everybody who follows jobs.
  void PublishEvents(std::vector<v1::JobEvent> events);

  void ConfirmWorkerExit(const WorkerProbe& probe);
  // Looks at the disk. Returns whether it allows changes.
  bool UpdateReadOnly();
  void MaybeSchedule();
  void Schedule();
  void Tick();
  void UpdateMetrics();
  void RemoveExpired();
  // Loop only. Removes the files of jobs that are surely forgotten.
  void RemoveFiles(std::vector<std::string> jobs, bool logs_only);
  // Before the loop starts: compares the clock with the store's newest time.
  // Returns the time to note in the store.
  absl::StatusOr<Document> CheckClock(JobStore* store,
                                      const std::vector<JobRecord>& records,
                                      absl::Time now);
  // Hands the report to the coordinator, which answers `call` now or later.
  void RunSynchronize(const v1::SynchronizeRequest& request,
                      const std::vector<v1::LogAck>& log_acks, int64_t call);
  void NotifyChange(const std::string& job);

  const Options options_;
  std::atomic<int64_t> next_call_{1};
  std::atomic<int64_t> visible_changes_{0};
  DatasetPinner* pinner_ = nullptr;

  // Loop only.
  JobDirectory directory_;
  QuotaFinder quotas_;
  JobAdmission admission_;
  ProgressHub hub_;
  JobObserver* observer_ = nullptr;
  PendingReplies<v1::SynchronizeResponse> calls_;
  // How often each job has changed.
  std::map<std::string, int64_t> changes_;
  ChangeListeners listeners_;
  bool schedule_posted_ = false;
  // Before the next pass.
  absl::Duration schedule_pause_;
  JobRetention retention_;
  ClockTrust clock_trust_;
  absl::Duration clock_lead_at_start_;
  // By the last tick.
  bool read_only_ = false;
  absl::Time next_measure_ = absl::InfinitePast();
  // Set while another coordinator leads.
  std::unique_ptr<StoreFollower> follower_;
  bool stopping_ = false;

  // IO thread only.
  LogFiles logs_;
  ModelUploads model_uploads_;
  IdleStreams idle_uploads_;

  // Ended in the destructor: probes, io, store, loop; each feeds the next.
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<StoreThread> store_;
  std::unique_ptr<EventLoop> io_;
  std::unique_ptr<WorkerProbes> probes_;
};

template <typename T>
void CoordinatorHost::RunQuery(Query<T> query, Callback<T> done) {
  loop_->Post([this, query = std::move(query), done = std::move(done)] {
    if (stopping_) return done(StoppingError());
    if (options_.follow != nullptr) return done(options_.not_leader());
    done(query(engine(), now()));
  });
}

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_COORDINATOR_HOST_H_
