#ifndef COMERA_SERVER_COORDINATOR_WORKER_WORKER_STATE_H_
#define COMERA_SERVER_COORDINATOR_WORKER_WORKER_STATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/training_service.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/operation/operation.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// A Synchronize call that waits for news.
struct HeldCall {
  int64_t call = 0;
  absl::Time deadline;
};

// What the coordinator knows of one worker daemon. Only the policy is stored;
// everything else is in memory and comes again with the worker's next report.
//
// A worker is *attached* from its first report to this coordinator on, and
// *lost* from the time at which its members were given up until it reports
// again. Not thread-safe.
class WorkerState {
 public:
  // The stored documents of this kind hold a WorkerPolicy.
  static constexpr char kDocumentKind[] = "worker";
  using Checkpoints = std::map<std::string, std::vector<v1::HeldCheckpoint>>;

  // `version` is the first version of the worker's answer.
  WorkerState(std::string id, int64_t version)
      : id_(std::move(id)), desired_version_(version) {}

  const std::string& id() const { return id_; }
  const std::string& incarnation() const { return incarnation_; }
  const std::string& host() const { return host_; }
  const std::string& rack() const { return rack_; }
  // The version of its program.
  const std::string& version() const { return version_; }
  const std::vector<v1::Slot>& slots() const { return slots_; }
  // The address of its PeerService; empty if it has none.
  const std::string& peer_address() const { return peer_address_; }
  // The period of the key for grants that the worker was told last.
  int64_t grant_period() const { return grant_period_; }
  void SetGrantPeriod(int64_t period) { grant_period_ = period; }
  absl::Time last_seen() const { return last_seen_; }

  // Life: attached, silent, lost, back.
  bool attached() const { return attached_; }
  bool lost() const { return lost_; }
  bool IsReachable() const { return attached_ && !lost_; }
  // Whether it is reachable and was heard within `suspect_after`.
  bool IsConnected(absl::Time now, absl::Duration suspect_after) const;
  // Whether it is connected and in service, so that it may get members.
  bool IsUsable(absl::Time now, absl::Duration suspect_after) const;
  void MarkLost() { lost_ = true; }
  // Gives it as long to report again as after a restart of the coordinator,
  // whenever it was heard last.
  void AwaitReport(absl::Time now);
  // Since when it has been away without a job, as far as calls of this have
  // seen; InfiniteFuture: it is not.
  absl::Time NoteAway(absl::Time now);
  // Whether its machine should be asked if its process still exists: it was
  // silent, and not asked, for `probe_after`, can be reached from `host`, and
  // has members that end with the process.
  bool NeedsProbe(absl::Time now, absl::Duration probe_after,
                  const std::string& host) const;
  void RecordProbe(absl::Time now) { last_probe_ = now; }
  // Whether the other one can open connections to its PeerService.
  bool CanBeReachedFrom(const std::string& host) const;

  // Reports.
  struct ReportChanges {
    // Its slots, or whether they can be used.
    bool slots = false;
    // Its peer address, or whether it can be reached.
    bool peers = false;
  };
  // Notes the start of the daemon that reports. Returns whether it is another
  // one than before, in the same incarnation.
  bool NoteDaemon(const std::string& daemon);
  // Applies the worker's description of itself.
  ReportChanges ApplyReport(const v1::SynchronizeRequest& request,
                            absl::Time now, absl::Duration suspect_after);
  // The incarnations and daemons that others have replaced are refused. These
  // are two kinds of names: a daemon may have given its own to an incarnation
  // that goes on without it.
  bool IsRetiredIncarnation(const std::string& incarnation) const;
  bool IsRetiredDaemon(const std::string& daemon) const;
  void ReplaceIncarnation(const std::string& incarnation);
  // Changes with each restart of its process or daemon. What it told of the
  // shared store before is not taken back by its silence after: a daemon does
  // not know what its last life put there.
  int64_t life() const { return life_; }
  // Expects a member that an earlier coordinator placed here; `incarnation` is
  // that of a live one, else empty.
  void ExpectMember(const std::string& job, const std::string& incarnation,
                    absl::Time now);

  // Slots of member processes that have not exited by the last report.
  const std::set<int32_t>& occupied() const { return occupied_; }
  // Returns whether they differ from those before.
  bool SetOccupied(std::set<int32_t> slots);
  // Whether the slot has been unfit for at least that long.
  bool IsUnfitFor(int32_t slot, absl::Time now, absl::Duration duration) const;

  // Active jobs with a member here.
  const std::set<std::string>& jobs() const { return jobs_; }
  void AddJob(const std::string& name) { jobs_.insert(name); }
  void RemoveJob(const std::string& name) { jobs_.erase(name); }

  // Its members obey MemberAssignment.finish.
  bool obeys_finish() const { return obeys_finish_; }
  // Programs of users' own may run here.
  bool runs_programs() const { return runs_programs_; }
  // Training states that it holds on its disk and in its memory, and other
  // files, by job.
  const Checkpoints& checkpoints() const { return checkpoints_; }
  // Whether it holds a training state of the job on disk or in memory.
  bool HoldsCheckpoint(const std::string& job) const;
  // Whether it holds this one; attempt 0 is any attempt's.
  bool HoldsState(const std::string& job,
                  const v1::TrainingStateKey& state) const;
  // Returns those before.
  Checkpoints SetCheckpoints(Checkpoints held) {
    return std::exchange(checkpoints_, std::move(held));
  }

  // The version rises with every change of the worker's answer.
  int64_t desired_version() const { return desired_version_; }
  void NextVersion() { ++desired_version_; }
  const std::optional<HeldCall>& held() const { return held_; }
  void Hold(HeldCall call) { held_ = call; }
  // Ends the held call, without an answer.
  void DropHeldCall() { held_.reset(); }
  // Ends the held call, which must exist, and returns it. Nobody hung up, so
  // the worker was there all the time.
  int64_t ReleaseHeldCall(absl::Time now);

  // Policy and hardware failures.
  const WorkerPolicy& policy() const { return policy_; }
  void LoadPolicy(WorkerPolicy policy) { policy_ = std::move(policy); }
  void SetPolicy(WorkerPolicy policy, Operation* op);
  v1::WorkerSummary::Service Service() const;
  // Counts a failure unless one with this cause counts already; returns the
  // number of failures within `window`, 0 if it was not counted.
  size_t AddFailure(const std::string& cause, absl::Time now,
                    absl::Duration window);
  size_t CountFailures(absl::Time now, absl::Duration window) const;
  void ClearFailures() { failures_.clear(); }

 private:
  void UpdateUnfit(const v1::SynchronizeRequest& request, absl::Time now);

  std::string id_;
  std::string incarnation_;
  // The start of the daemon; empty if it does not tell.
  std::string daemon_;
  int64_t life_ = 0;
  // Whether its members outlive the daemon.
  bool members_survive_ = false;
  bool obeys_finish_ = false;
  bool runs_programs_ = false;
  // Replaced incarnations and replaced daemons, newest last.
  std::deque<std::string> retired_incarnations_;
  std::deque<std::string> retired_daemons_;
  std::string host_;
  std::string rack_;
  std::string version_;
  std::vector<v1::Slot> slots_;
  std::string peer_address_;
  int64_t grant_period_ = 0;
  Checkpoints checkpoints_;
  absl::Time last_probe_ = absl::InfinitePast();
  std::set<int32_t> occupied_;
  std::set<std::string> jobs_;
  absl::Time last_seen_;
  bool attached_ = false;
  bool lost_ = false;
  absl::Time away_since_ = absl::InfiniteFuture();
  int64_t desired_version_ = 0;
  std::optional<HeldCall> held_;
  // Since when slots are unfit, by index.
  std::map<int32_t, absl::Time> unfit_since_;
  // Time and cause of the failures that count towards an exclusion.
  std::deque<std::pair<absl::Time, std::string>> failures_;
  WorkerPolicy policy_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_WORKER_STATE_H_
