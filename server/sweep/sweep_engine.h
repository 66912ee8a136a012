#ifndef COMERA_SERVER_SWEEP_SWEEP_ENGINE_H_
#define COMERA_SERVER_SWEEP_SWEEP_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/sweep_service.pb.h"
#include "comera/v1/training_service.pb.h"
#include "google/protobuf/repeated_field.h"
#include "proto/sweep/search_history.h"
#include "proto/sweep/sweep_plan.h"
#include "server/runtime/id_source.h"
#include "server/sweep/dominance_rule.h"
#include "server/sweep/pareto_front.h"
#include "server/sweep/sweep_record.pb.h"
#include "server/sweep/sweep_search.h"

namespace comera::server {

// One job of a sweep: a run, or a shared early stage.
struct SweepChildId {
  std::string sweep;
  bool stage = false;
  int index = 0;

  bool operator<(const SweepChildId& other) const {
    return std::tie(sweep, stage, index) <
           std::tie(other.sweep, other.stage, other.index);
  }
};

// What an operation of the engine wants done: make `records` durable (an unset
// record: the sweep is forgotten), then create, cancel, pause and resume jobs
// and wake readers.
struct SweepEffects {
  struct Create {
    SweepChildId child;
    v1::CreateJobRequest request;
    // The user whose job it is to be.
    std::string user;
  };
  struct Cancel {
    std::string job;
    std::string reason;
  };
  // By name.
  std::map<std::string, std::optional<SweepRecord>> records;
  std::vector<Create> create;
  std::vector<Cancel> cancel;
  // Jobs of searches.
  std::vector<std::string> pause, resume;
  // Sweeps with new events.
  std::set<std::string> wake;
};

// What a search that is created is told of the cluster.
struct SearchContext {
  // Finished jobs with the same data and family.
  std::vector<FinishedRun> history;
  // Jobs of it that can run side by side.
  int parallel = 1;
};

// A sweep that is ready to begin.
struct PlannedSweep {
  // The specification, with its defaults.
  v1::SweepSpec spec;
  // The runs of a search, and how many of them were learned.
  google::protobuf::RepeatedPtrField<v1::SweepPoint> candidates;
  int learned = 0;
  // Jobs of it that can run side by side.
  int parallel = 1;
  SweepPlan plan;
};

// Plans a new sweep, or reports what is wrong with it. A pure function, which
// may take a while: not for the event loop.
PlannedSweep PlanNewSweep(const v1::SweepSpec& spec,
                          const SearchContext& context,
                          std::vector<FieldViolation>* violations);

// The record of a sweep, with the plan of one that is under way.
struct StoredSweep {
  SweepRecord record;
  SweepPlan plan;
};
// Plans what is under way; not for the event loop either.
std::vector<StoredSweep> PlanStoredSweeps(std::vector<SweepRecord> records);

// What a user may have of sweeps; 0: any number.
struct SweepQuota {
  int64_t sweeps = 0;
  int64_t active_sweeps = 0;
  // The bytes of the specifications of the user's sweeps and jobs, and those
  // that the jobs have of them.
  int64_t spec_bytes = 0;
  int64_t used_by_jobs = 0;
};

// A page of a list of sweeps, without their runs, stages and points.
struct SweepPage {
  std::vector<v1::Sweep> sweeps;
  // The rest of the list is before this serial; 0: there is no more.
  int64_t next = 0;
};

// Decides what happens to sweeps: a state machine over requests, events of jobs
// and time. No locks, threads, IO or clock; one thread calls it.
//
// After a restart, Load() with the stored records puts it back, and Tick() asks
// again for what was not done yet: jobs are created by a request_id made of the
// sweep and the run, so that asking twice creates once.
//
// Guarantees: a run that fails does not end the sweep; every sweep whose jobs
// all end comes to a final state, with the exact front over all points that its
// jobs reported.
class SweepEngine {
 public:
  struct Options {
    // Sweeps that have not ended.
    size_t max_active = 1000;
    // Newest events kept per sweep for readers.
    size_t kept_events = 512;
    // After a creation was refused for now (full queue). One job is asked for
    // then, and twice as many as before after each that was taken.
    absl::Duration retry_after = absl::Seconds(5);
    // Figures that change all the time are stored this often; what is lost in a
    // crash is read again from the jobs' events.
    absl::Duration store_interval = absl::Seconds(10);
    // Ended sweeps are forgotten after this.
    absl::Duration keep_ended = absl::InfiniteDuration();
    // How often those are looked for.
    absl::Duration expiry_interval = absl::Minutes(10);
    DominanceOptions dominance;
  };

  // `ids` must outlive the engine.
  SweepEngine(const Options& options, IdSource* ids);

  // What an earlier engine stored; once, before anything else. A sweep that
  // this version plans in another way has failed.
  void Load(std::vector<StoredSweep> sweeps, absl::Time now);

  // `planned` is the request's sweep. InvalidArgument: the request_id belongs
  // to another spec or user. ResourceExhausted: max_active, or the user's
  // quota.
  absl::StatusOr<v1::Sweep> Create(const v1::CreateSweepRequest& request,
                                   PlannedSweep planned,
                                   const std::string& user, absl::Time now,
                                   SweepEffects* effects,
                                   const SweepQuota& quota = {});
  // NotFound.
  absl::StatusOr<v1::Sweep> Cancel(const std::string& name,
                                   const std::string& reason, absl::Time now,
                                   SweepEffects* effects);
  // NotFound, FailedPrecondition: not ended.
  absl::Status Delete(const std::string& name, SweepEffects* effects);

  // The answer to SweepEffects::Create. Unavailable and ResourceExhausted:
  // asked again later; other errors: the run failed.
  void Created(const SweepChildId& child, const absl::StatusOr<v1::Job>& job,
               absl::Time now, SweepEffects* effects);
  // A job that SweepEffects::resume names could not be queued; it is asked for
  // again later.
  void NotResumed(const std::string& job);

  // Sequence of the newest event taken of a job; nothing if no sweep that is
  // under way has it.
  std::optional<int64_t> JobSequence(const std::string& job) const;
  // `job` as it was when the event was shown. Events before JobSequence change
  // nothing.
  void ApplyEvent(const v1::JobEvent& event, const v1::Job& job, absl::Time now,
                  SweepEffects* effects);
  // All events up to `sequence` were taken, gaps included; `job` as it is now.
  // Null: there is no such job any more.
  void CaughtUp(const std::string& name, const v1::Job* job, int64_t sequence,
                absl::Time now, SweepEffects* effects);
  // Jobs of sweeps that are under way.
  std::vector<std::string> Jobs() const;

  // About every second.
  void Tick(absl::Time now, SweepEffects* effects);

  // Null if unknown. Complete; valid until the next call that changes it.
  const v1::Sweep* Find(const std::string& name) const;
  // Lists the sweeps whose serial is below `before` (0: all), newest first,
  // without those that are not `visible`, of which nothing is copied. A page
  // has at most `limit` sweeps, and no more than `max_bytes` unless it has one
  // sweep only.
  SweepPage List(int64_t before, int limit, size_t max_bytes,
                 const std::function<bool(const v1::Sweep&)>& visible) const;
  // The bytes of the specifications of the user's sweeps.
  int64_t SpecBytesOf(const std::string& user) const;
  int64_t LastSequence(const std::string& name) const;
  // The kept events after `sequence`; nothing if some of them are gone.
  std::optional<std::vector<v1::SweepEvent>> EventsAfter(
      const std::string& name, int64_t sequence) const;

 private:
  struct Entry {
    SweepRecord record;
    // Empty once the sweep has ended.
    SweepPlan plan;
    ParetoFront front{1024};
    std::deque<v1::SweepEvent> events;
    // Creations that were asked for and not answered; how many may be, and
    // when the next may be asked for.
    std::set<SweepChildId> creating;
    size_t window = kMaxSweepRuns;
    absl::Time ask_again = absl::InfinitePast();
    std::set<std::string> cancelled;  // jobs
    // Null: no search, or one that has ended. It refers to `record` and `plan`.
    std::unique_ptr<SweepSearch> search;
    // Jobs that were asked to pause, or to go on, and have not done it yet.
    std::set<std::string> pausing, resuming;
    bool search_changed = false;
    std::set<int> changed_runs, changed_stages;
    bool front_changed = false;
    absl::Time stored = absl::InfinitePast();
    bool unsaved = false;

    v1::Sweep& sweep() { return *record.mutable_sweep(); }
    const v1::Sweep& sweep() const { return record.sweep(); }
  };

  // `spec_bytes`: those of the new sweep.
  absl::Status CheckQuota(const std::string& user, int64_t spec_bytes,
                          const SweepQuota& quota) const;
  // The sweep is kept from now on (by: 1), or no longer (-1).
  void CountSpec(const v1::Sweep& sweep, int by);
  static void MakeChildren(Entry& entry);
  // Starts, cancels and ends what is due.
  void Advance(Entry& entry, absl::Time now, SweepEffects* effects);
  void StartRun(Entry& entry, int index, int* room, absl::Time now,
                SweepEffects* effects);
  // How many jobs may be started.
  static int Room(const Entry& entry);
  void RequestJob(Entry& entry, const SweepChildId& child, absl::Time now,
                  SweepEffects* effects);
  // Shows why the child has no job yet; empty: it has one.
  static void DescribeWait(Entry& entry, const SweepChildId& child,
                           const std::string& why);
  void CancelJobs(Entry& entry, SweepEffects* effects);
  // Searches (sweep_engine_search.cc).
  void SteerSearch(Entry& entry, int* room, SweepEffects* effects);
  void SettleStopped(Entry& entry);
  void StartOver(Entry& entry, const SearchChild& child);
  void ConcludeSearch(Entry& entry);
  void EndIfDone(Entry& entry, absl::Time now, SweepEffects* effects);
  // Frees what only a sweep that is under way needs: its plan holds a second
  // copy of its specification.
  static void DropPlan(Entry& entry);
  void SettleRun(Entry& entry, int index, v1::SweepRunState state,
                 const std::string& reason);
  void ApplyFinalState(Entry& entry, const SweepChildId& child,
                       const v1::Job& job);

  // Events (sweep_engine_events.cc).
  // `complete`: no event of the job is still to come. A job as it is read
  // beside one of its events may have ended already, and settles only with the
  // event that says so, after the one with its result.
  void ApplyJob(Entry& entry, const SweepChildId& child, const v1::Job& job,
                bool complete);
  void ApplyPoint(Entry& entry, const SweepChildId& child,
                  const v1::ParetoPoint& point);
  void ApplyValidation(Entry& entry, const SweepChildId& child,
                       const v1::StepMetrics& metrics);
  void CheckDominance(Entry& entry, int index);
  // Notes the run's metric at the rungs that it has reached, and whether it is
  // to be stopped.
  void CheckHalving(Entry& entry, int index, const v1::StepMetrics& metrics);
  void RebuildFront(Entry& entry);
  void UpdateFront(Entry& entry);
  void UpdateCounts(Entry& entry);
  void AddEvent(Entry& entry, v1::SweepEvent event, absl::Time now,
                SweepEffects* effects);
  // Tells readers of changed runs, stages and front.
  void PublishChanges(Entry& entry, absl::Time now, SweepEffects* effects);
  // Ends an operation that changed more than figures.
  void Store(Entry& entry, absl::Time now, SweepEffects* effects);

  void ForgetOldSweeps(absl::Time now, SweepEffects* effects);

  Entry* FindEntry(const std::string& name);
  static SweepChild* RecordOf(Entry& entry, const SweepChildId& child);

  const Options options_;
  IdSource* const ids_;
  std::map<std::string, Entry> sweeps_;
  std::map<int64_t, std::string> by_serial_;
  std::map<std::string, std::string> requests_;
  // The bytes of the specifications of each user's sweeps; users without sweeps
  // have no entry.
  std::map<std::string, int64_t> spec_bytes_;
  // Jobs of sweeps that are under way.
  std::map<std::string, SweepChildId> jobs_;
  absl::Time next_expiry_ = absl::InfinitePast();
};

bool IsFinal(v1::Sweep::State state);
bool IsSettled(v1::SweepRunState state);

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_SWEEP_ENGINE_H_
