#ifndef COMERA_WORKER_GANG_MEMBER_TABLE_H_
#define COMERA_WORKER_GANG_MEMBER_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "common/steady_time.h"
#include "worker/gang/gang_member.h"
#include "worker/gang/member_record.pb.h"
#include "worker/report/report_queue.h"

namespace comera::worker {

// Compares the members on this worker with those that the coordinator wants,
// and decides which processes to start and stop and what to report. Does no IO;
// not thread-safe.
//
// Guarantees: a member is started at most once; none starts in a slot, or for a
// job, while an earlier process may still be alive there; a report is repeated
// until the coordinator acknowledges it.
class MemberTable {
 public:
  using Key =
      std::tuple<std::string, int64_t, int32_t>;  // job, attempt, member

  struct Actions {
    struct Start {
      GangMembers::Id id;
      v1::MemberAssignment assignment;
    };
    std::vector<Start> start;
    std::vector<GangMembers::Id> stop;
    // Members that hang, or that do not exit although they are done.
    std::vector<GangMembers::Id> kill;
    // Members that have ended and whose models are to be sent once more.
    std::vector<v1::MemberKey> upload_again;
    // Members that were stopped after they had finished: their models are tried
    // once.
    std::vector<v1::MemberKey> stop_retrying;
  };

  // `steady` is a monotonic clock; it measures how long members stand still.
  explicit MemberTable(const std::vector<v1::Slot>& slots,
                       std::function<absl::Time()> steady = SteadyNow);

  // Replaces the set of members that should run here.
  void SetDesired(
      const google::protobuf::RepeatedPtrField<v1::MemberAssignment>& desired);

  // Returns the actions that lead to the desired set; each action is returned
  // once. The caller must follow every start by StartFailed
  // (FailedPrecondition: the slot is unfit) or, later, OnExit.
  Actions Reconcile(absl::Time now);
  void StartFailed(GangMembers::Id id, const absl::Status& status,
                   absl::Time now);

  // Takes the place of StartFailed when the member's data could not be fetched
  // (errors of DataFetcher), or the training state that it starts from. A class
  // in the status (FailureClassIn) is that of the failure. A member that is
  // being stopped gets no failure of its own.
  void FetchFailed(GangMembers::Id id, const absl::Status& status,
                   absl::Time now);
  // Whether the member should still be started: it is known and not being
  // stopped.
  bool IsAwaited(GangMembers::Id id) const;
  // Between Preparing() and Launching() the member's data have arrived but its
  // process does not exist yet, so that no sign of life is expected.
  void Preparing(GangMembers::Id id);
  // The preparation has got on; `activity` says how far. The member still
  // counts as starting.
  void PreparationMoved(GangMembers::Id id, const std::string& activity);
  void Launching(GangMembers::Id id);

  // Takes over a member that an earlier daemon started; its events follow, from
  // the record's place on.
  void Adopt(const MemberRecord& record);

  // `end` is the place in the member's events behind this one; 0 for an event
  // that stands in for the process before it exists. Reports are numbered by
  // these places, so that an event has the same number whichever daemon reads
  // it. Returns false if the process is unknown.
  bool OnEvent(GangMembers::Id id, const v1::TrainerEvent& event,
               int64_t end = 0);
  // Returns the member whose model should now be uploaded, if there is one.
  std::optional<v1::MemberKey> OnExit(GangMembers::Id id,
                                      const MemberExit& exit, absl::Time now);
  // Aborted and NotFound mean that nobody wants the model any more.
  void OnUpload(const v1::MemberKey& rank,
                const absl::StatusOr<std::vector<v1::Artifact>>& models,
                absl::Time now);

  // Adds statuses and reports; the end of a member comes after its last report.
  // Returns whether the call carries news, i.e. wants an answer at once.
  // `cut_off`: the coordinator was unreachable, so members that prepare had to
  // wait. `disk_full`: members cannot write events, so that their silence means
  // nothing.
  bool Fill(v1::SynchronizeRequest* request, bool cut_off = false,
            bool disk_full = false);
  // The coordinator has answered the call that Fill() prepared.
  void OnResponse(const v1::SynchronizeResponse& response);

  // This worker is ending, so that ends of members are its own doing.
  void ShutDown() { shutting_down_ = true; }
  // The coordinator has been silent for too long: members are to save their
  // state and end, and none is started before it answers again.
  void GiveUpCoordinator(const std::string& why) { gave_up_ = why; }

  // The workers that are to keep copies of the member's checkpoints.
  std::vector<v1::Peer> Replicas(const v1::MemberKey& rank) const;
  // Whether the member is here and has not ended.
  bool IsAlive(const v1::MemberKey& rank) const;
  std::optional<v1::MemberAssignment> Assignment(GangMembers::Id id) const;

  // Returns the jobs that have ended and have no member here, each once.
  std::vector<std::string> PopFinishedJobs();
  // Returns the members that the coordinator has let this worker forget, each
  // once.
  std::vector<GangMembers::Id> PopForgotten();
  // How far into the events of a member no daemon needs to read again, and the
  // stage that was reported last before that.
  struct Settled {
    GangMembers::Id id = 0;
    int64_t events_offset = 0;
    v1::Stage reported_stage = v1::STAGE_UNSPECIFIED;
  };
  std::vector<Settled> ListSettled() const;
  // The stage that was reported before the member's process existed.
  v1::Stage StageAtStart(GangMembers::Id id) const;
  // Returns the attempts that have no member here any more, each once.
  std::vector<std::pair<std::string, int64_t>> PopFinishedAttempts();

  std::optional<v1::MemberKey> Find(GangMembers::Id id) const;
  std::set<std::string> Jobs() const;
  // The gangs that also have members on other workers, with the number of those
  // on this one. They stay listed after they have met, because an entry may
  // announce that a member has ended.
  std::map<std::pair<std::string, int64_t>, int> SpanningGangs() const;
  // Whether any such gang is not known to have met yet.
  bool AnyMeeting() const;
  bool HasProcesses() const;
  std::vector<GangMembers::Id> Processes() const;

 private:
  struct Member {
    v1::MemberAssignment assignment;
    GangMembers::Id id = 0;
    // Whether its process may still be alive.
    bool process = true;
    bool uploading = false;
    bool stopping = false;
    // Whether it was killed although its training had ended well.
    bool forced = false;
    bool kill_reported = false;
    bool preparing = false;
    // Why this worker itself stopped it; empty if it did not.
    std::string stop_why;
    // Times of steady_: since when its heartbeat has not changed, its last sign
    // of life, and its result.
    absl::Time progress_time;
    absl::Time heard_time;
    absl::Time result_time = absl::InfiniteFuture();
    int64_t work = 0;
    // The status as reported, except for what waits for the upload.
    v1::MemberStatus status;
    std::optional<v1::TrainingResult> result;
    std::optional<v1::Failure> failure;
    // The place in its events up to which they were handled, and the stages
    // that were reported, by the places of those reports.
    int64_t handled = 0;
    std::map<int64_t, v1::Stage> reported_stages;
    // The status as of the last answered call.
    v1::MemberStatus reported;
  };

  // The place of an event, added to this, is the number of its report. Numbers
  // below are those of the few events from before there is a process.
  static constexpr int64_t kFirstNumber = 1000;

  template <typename Message>
  static Key KeyOf(const Message& message) {
    return {message.job(), message.attempt(), message.rank()};
  }
  // Fills in reports, and returns the attempts of which some are left behind.
  std::set<std::pair<std::string, int64_t>> FillReports(
      v1::SynchronizeRequest* request, bool* news);
  // The stage that had been reported at a place in the member's events.
  static v1::Stage ReportedStage(const Member& rank, int64_t place);
  static v1::MemberKey ToProto(const Key& key);
  // A member that starts now.
  Member Begin(GangMembers::Id id,
               const v1::MemberAssignment& assignment) const;
  Member* FindById(GangMembers::Id id);
  bool MayStart(const v1::MemberAssignment& assignment) const;
  void End(Member& rank);

  // Moves the members' timers on by the time in which this daemon was stopped.
  void ForgiveOwnPause();

  const std::function<absl::Time()> steady_;
  absl::Time last_reconcile_ = absl::InfiniteFuture();
  // Why the coordinator was given up; empty if it was not.
  std::string gave_up_;
  std::set<Key> kill_;
  std::set<Key> upload_again_;
  std::set<int32_t> slots_;
  bool shutting_down_ = false;
  GangMembers::Id next_id_ = 1;
  std::map<Key, v1::MemberAssignment> desired_;
  std::map<Key, Member> ranks_;
  // The newest attempt of each (job, member) that was begun here.
  std::map<std::pair<std::string, int32_t>, int64_t> begun_;
  std::map<std::pair<std::string, int64_t>, ReportQueue> reports_;
  // The attempt whose reports came first in the newest call.
  std::pair<std::string, int64_t> first_reported_;
  // The statuses in the call under way.
  std::map<Key, v1::MemberStatus> sent_;
  std::set<std::string> finished_jobs_;
  std::vector<std::pair<std::string, int64_t>> finished_attempts_;
  std::vector<GangMembers::Id> forgotten_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_TABLE_H_
