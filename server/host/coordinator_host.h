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
#include "server/coordinator/coordinator.h"
#include "server/coordinator/prepared_job.h"
#include "server/host/dataset_pinner.h"
#include "server/host/job_observer.h"
#include "server/host/worker_probe.h"
#include "server/metrics/coordinator_metrics.h"
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
// Threads: methods of the first group may be called from any thread, their
// callbacks come on the loop's thread, once each, after all that they tell is
// durable. Methods of the second group are for closures on the loop.
//
// Stop: Stop() first (held calls and streams end, new calls get Unavailable),
// then the RPC server goes, then the destructor flushes the store.
class CoordinatorHost {
 public:
  // How long what is finished stays. Infinite: for ever.
  struct Retention {
    // Finished jobs, with events, models and logs.
    absl::Duration keep_jobs = absl::InfiniteDuration();
    // Logs of finished jobs.
    absl::Duration keep_logs = absl::InfiniteDuration();
    absl::Duration sweep_interval = absl::Hours(1);
    // Only log what would go.
    bool dry_run = false;
  };
  struct Options {
    std::string data_dir;
    Coordinator::Options coordinator;
    ProgressHub::Options hub;
    LogFiles::Options logs;
    // Infinite: only TickNow().
    absl::Duration tick_interval = absl::Seconds(1);
    // Set: another coordinator leads. This one shows, a tick later, what the
    // leader writes into the store, and changes nothing.
    ChangeFeed* follow = nullptr;
    // With `follow`: called on the store's thread after each look at the store.
    std::function<void(JobStore*)> on_follow;
    // With `follow`: the error that sends a client to the leader.
    std::function<absl::Status()> not_leader;
    Retention retention;
    // Told what happens; null: nobody is. Must outlive the host.
    CoordinatorMetrics* metrics = nullptr;
  };
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;
  using StatusCallback = std::function<void(const absl::Status&)>;

  // Loads the store's jobs. Errors of JobStore::LoadJobs. `on_failure` is
  // called at most once, from some thread, when the store can write no more;
  // the process should then end and start again. All pointers must outlive the
  // host.
  static absl::StatusOr<std::unique_ptr<CoordinatorHost>> Start(
      const Options& options, JobStore* store, IdSource* ids, Clock* clock,
      StatusCallback on_failure);
  ~CoordinatorHost();

  // Any thread.
  // `audit`, if set, makes an entry of the audit log, which becomes durable
  // together with the change. ResourceExhausted: the user has `max_queued` jobs
  // waiting already (0: any number may).
  void CreateJob(PreparedJob job, Callback<v1::Job> done,
                 JobAudit audit = nullptr, int64_t max_queued = 0);
  // Calls back at once, on the calling thread.
  void GetJob(std::string name, Callback<v1::Job> done);
  // The same, with what the directory knows of it; nothing if there is no such
  // job.
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
  void ListWorkers(Callback<v1::ListWorkersResponse> done);
  // Runs an operation of the coordinator on the loop, and answers with its
  // value once its effects are durable.
  template <typename T>
  void Operate(std::function<absl::StatusOr<T>(Coordinator*, absl::Time now,
                                               Effects* effects)>
                   operation,
               Callback<T> done);
  // The same for one without effects.
  template <typename T>
  void Ask(std::function<absl::StatusOr<T>(const Coordinator&, absl::Time now)>
               question,
           Callback<T> done);
  // Returns the call's number for Abandon().
  int64_t Synchronize(v1::SynchronizeRequest request,
                      Callback<v1::SynchronizeResponse> done);
  void Abandon(int64_t call);
  // What the dataset paths of new jobs mean; to be called before any job is
  // created. Without it such jobs are refused. It must live until Stop().
  void SetDatasetPinner(DatasetPinner* pinner) { pinner_ = pinner; }
  // Whether the spec's dataset paths mean something. Errors of DatasetPinner.
  void CheckDatasets(v1::JobSpec spec, StatusCallback done);
  void CheckUpload(v1::UploadArtifactHeader header, StatusCallback done);
  void ArtifactStored(v1::UploadArtifactHeader header, StatusCallback done);
  // A batch of others, in order with the coordinator's; `done` and `read` run
  // on the store's thread.
  void Write(StoreBatch batch, StatusCallback done);
  void Read(std::function<void(JobStore*)> read);
  // Runs Coordinator::Tick at the clock's time and waits for it; for tests.
  void TickNow();
  void Stop();
  // Rises with whatever a reader may see of jobs and sweeps, before he is told
  // of it, but for samples of progress.
  int64_t visible_changes() const { return visible_changes_; }
  // For changes of what others keep beside the jobs.
  void AddVisibleChange() { ++visible_changes_; }
  EventLoop& loop() { return *loop_; }
  // The thread that may block on files.
  EventLoop& io() { return *io_; }
  const std::string& data_dir() const { return options_.data_dir; }

  // Loop only.
  const JobDirectory& directory() const { return directory_; }
  ProgressHub& hub() { return hub_; }
  // At most one; must outlive the host.
  void SetObserver(JobObserver* observer) { observer_ = observer; }
  // Null once the host stops.
  StoreThread* store() { return stopping_ ? nullptr : store_.get(); }
  bool stopping() const { return stopping_; }
  // Reads on the IO thread, answers on the loop.
  void ReadLog(std::string job, int64_t attempt, int32_t rank, int64_t offset,
               size_t max_bytes, Callback<std::string> done);
  // Rises whenever a job changes or one of its logs grows.
  int64_t Changes(const std::string& job) const;
  // `wake` is called on every such change, and when the host stops, until it is
  // removed by the returned number. An empty job: only for the stop.
  int64_t AddListener(const std::string& job, std::function<void()> wake);
  void RemoveListener(const std::string& job, int64_t id);

 private:
  CoordinatorHost(const Options& options, IdSource* ids, Clock* clock);

  // Loop only. `datasets.hold` lives until `done` was called. Without datasets,
  // only a repeated request has a job; other requests end with their error.
  void Submit(PreparedJob job, const absl::StatusOr<PinnedDatasets>& datasets,
              const JobAudit& audit, Callback<v1::Job> done);
  void PinDatasets(v1::JobSpec spec, Callback<PinnedDatasets> done);

  // Makes the effects durable, then shows and releases them, then `done`.
  void Apply(Effects effects, StatusCallback done,
             std::vector<AuditRow> audit = {});
  std::vector<AuditRow> Rows(const JobAudit& audit,
                             const absl::StatusOr<v1::Job>& job) const;
  void Release(const absl::Status& status, Effects effects);
  void WorkerGone(const WorkerProbe& probe);
  void MaybeSchedule();
  void Tick();
  void TellMetrics();
  // Retention (coordinator_host_retention.cc).
  void MaybeSweep();
  void Sweep();
  void ForgetJobs(const std::vector<std::string>& names);
  // On the IO thread.
  void RemoveFiles(const std::vector<std::string>& jobs, bool logs_only);
  // Following (coordinator_host_follow.cc).
  void Follow();
  void TakeChanges(absl::StatusOr<StoreChanges> changes);
  void TakeEvents(JobRecord record,
                  const absl::StatusOr<std::vector<v1::JobEvent>>& events);
  void Show(JobRecord record);
  void TakeSynchronize(const v1::SynchronizeRequest& request,
                       const std::vector<v1::LogAck>& log_acks, int64_t call);
  // On the IO thread.
  std::vector<v1::LogAck> AppendLogs(const v1::SynchronizeRequest& request,
                                     const std::vector<bool>& keep);
  void Reply(int64_t call, absl::StatusOr<v1::SynchronizeResponse> response);
  void NotifyChange(const std::string& job);

  const Options options_;
  Clock* const clock_;
  std::atomic<int64_t> next_call_{1};
  std::atomic<int64_t> visible_changes_{0};
  DatasetPinner* pinner_ = nullptr;

  // Loop only.
  Coordinator coordinator_;
  JobDirectory directory_;
  ProgressHub hub_;
  JobObserver* observer_ = nullptr;
  std::map<int64_t, Callback<v1::SynchronizeResponse>> calls_;
  std::map<std::string, int64_t> changes_;
  // By job, then by number.
  std::map<std::string, std::map<int64_t, std::function<void()>>> listeners_;
  int64_t next_listener_ = 1;
  bool schedule_posted_ = false;
  // Before the next pass.
  absl::Duration schedule_pause_;
  absl::Time next_sweep_ = absl::InfinitePast();
  absl::Time next_measure_ = absl::InfinitePast();
  // Following: the newest commit taken, and what is still being read of it.
  int64_t followed_change_ = 0;
  int pending_reads_ = 0;
  bool feed_failed_ = false;
  bool stopping_ = false;

  // IO thread only.
  LogFiles logs_;

  // Ended in the destructor: probes, io, store, loop; each feeds the next.
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<StoreThread> store_;
  std::unique_ptr<EventLoop> io_;
  std::unique_ptr<WorkerProbes> probes_;
};

template <typename T>
void CoordinatorHost::Operate(
    std::function<absl::StatusOr<T>(Coordinator*, absl::Time now,
                                    Effects* effects)>
        operation,
    Callback<T> done) {
  loop_->Post([this, operation = std::move(operation), done = std::move(done)] {
    if (stopping_) {
      return done(absl::UnavailableError("the coordinator is stopping"));
    }
    Effects effects;
    absl::StatusOr<T> value = operation(&coordinator_, clock_->Now(), &effects);
    Apply(std::move(effects), [value, done](const absl::Status& status) {
      if (status.ok()) return done(value);
      done(absl::UnavailableError(status.message()));
    });
  });
}

template <typename T>
void CoordinatorHost::Ask(
    std::function<absl::StatusOr<T>(const Coordinator&, absl::Time now)>
        question,
    Callback<T> done) {
  loop_->Post([this, question = std::move(question), done = std::move(done)] {
    if (stopping_) {
      return done(absl::UnavailableError("the coordinator is stopping"));
    }
    if (options_.follow != nullptr) return done(options_.not_leader());
    done(question(coordinator_, clock_->Now()));
  });
}

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_COORDINATOR_HOST_H_
