#ifndef COMERA_SERVER_SWEEP_SWEEP_HOST_H_
#define COMERA_SERVER_SWEEP_SWEEP_HOST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "server/host/change_listeners.h"
#include "server/host/coordinator_host.h"
#include "server/host/engine_host.h"
#include "server/host/job_observer.h"
#include "server/runtime/event_loop.h"
#include "server/sweep/sweep_engine.h"

namespace comera::server {

// Runs a SweepEngine beside a coordinator: feeds it the jobs' events, keeps its
// records in the job store, creates and cancels the jobs that it asks for.
//
// Threads: methods of the first group may be called from any thread, their
// callbacks come on the loop's thread, once each, after all that they tell is
// durable. Methods of the second group are for closures on the loop.
//
// Life cycle: from Start() until after the host's destruction, which still runs
// closures of it.
class SweepHost : public EngineHost<SweepEngine, SweepEffects>,
                  public JobObserver {
 public:
  // Loads the stored sweeps; waits for it. Errors of JobStore::LoadDocuments;
  // DataLoss: a stored sweep is damaged.
  static absl::StatusOr<std::unique_ptr<SweepHost>> Start(
      const SweepEngine::Options& options, CoordinatorHost* host, IdSource* ids,
      Clock* clock);
  // Any thread.
  // Plans a new sweep on a thread of the sweeps' own, where `done` is called:
  // neither gRPC's threads nor the loop wait for it. InvalidArgument: something
  // is wrong with the specification. ResourceExhausted with RetryInfo: several
  // sweeps of the user are being planned already.
  void Plan(v1::SweepSpec spec, std::string user,
            std::function<void(absl::StatusOr<PlannedSweep>)> done);
  // `program_queues`: queues in which it runs programs as a user who does not
  // administer them. Errors of the engine, PermissionDenied if one of those
  // queues does not let users run programs, and Unavailable while stopping.
  void Create(v1::CreateSweepRequest request, PlannedSweep planned,
              std::vector<std::string> program_queues, std::string user,
              Callback<v1::Sweep> done);
  void Get(std::string name, Callback<v1::Sweep> done);
  // SweepEngine::List. A page holds fewer sweeps than `limit` when they are
  // large.
  void List(int64_t before, int limit,
            std::function<bool(const v1::Sweep&)> visible,
            Callback<SweepPage> done);
  void Cancel(std::string name, std::string reason, Callback<v1::Sweep> done);
  void Delete(std::string name, StatusCallback done);
  // The points that jobs have reported so far, by `jobs/{job}`; `visible` is
  // asked first. NotFound; the first error of `visible`.
  struct JobPoints {
    std::vector<v1::FrontPoint> points;
    v1::ReferencePoint reference;  // Zeros: none was reported.
  };
  void ReadPoints(std::vector<std::string> jobs,
                  std::function<absl::Status(const v1::Job&)> visible,
                  Callback<JobPoints> done);

  // Loop only.
  CoordinatorHost& host() { return *host_; }
  absl::Status CheckWritable() const override { return host_->CheckWritable(); }
  EventLoop& loop() override { return host_->loop(); }
  StoreThread* store() override { return host_->store(); }
  // `wake` is called when the sweep has news, until it is removed.
  int64_t AddListener(const std::string& sweep, std::function<void()> wake) {
    return listeners_.Add(sweep, std::move(wake));
  }
  void RemoveListener(const std::string& sweep, int64_t id) {
    listeners_.Remove(sweep, id);
  }

 private:
  struct PointsRead;

  SweepHost(const SweepEngine::Options& options, CoordinatorHost* host,
            IdSource* ids, Clock* clock);

  void OnJobEvent(const v1::JobEvent& event) override;
  void OnTick(absl::Time now) override;
  absl::Status CheckMayDelete(const v1::Job& job) const override;
  int64_t SpecBytesOf(const std::string& user) const override;

  // EngineHost.
  StoreBatch ToBatch(const SweepEffects& effects) const override;
  void OnCommitted(SweepEffects effects) override;
  // What a search of these jobs is told of the cluster.
  SearchContext LookAround(const v1::SweepSpec& spec, absl::Time now) const;
  // Asks the coordinator, as the sweep's owner: within the owner's limits, and
  // with entries in the audit log.
  void CreateChild(SweepEffects::Create create);
  void CancelChild(const SweepEffects::Cancel& cancel);
  void PauseChild(const std::string& job);
  void ResumeChild(const std::string& job);
  // The audit log's entry of what a sweep does in its owner's name.
  static JobAudit AuditChild(const std::string& user, const std::string& sweep,
                             const std::string& method);
  JobAudit AuditChild(const std::string& job, const std::string& method) const;
  // Reads the events that the engine has not seen.
  void CatchUp(const std::string& job);
  void CatchUpPage(const std::string& job);
  void ReadNextPoints(std::shared_ptr<PointsRead> read);

  CoordinatorHost* const host_;
  std::mutex planning_mutex_;
  // How many sweeps of each user are being planned.
  std::map<std::string, int> planning_;  // guarded by planning_mutex_
  // Loop only.
  // Jobs whose events are being read, with the newest one read.
  std::map<std::string, int64_t> catching_up_;
  ChangeListeners listeners_;
  // The thread that plans. Ended first.
  EventLoop planner_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_SWEEP_HOST_H_
