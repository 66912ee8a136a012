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
#include "worker/report/report_queue.h"

namespace comera::worker {

// What this worker has (ranks, their ends, their reports) against what the
// coordinator wants: says which processes to start and stop, and what to tell.
// No IO; not thread-safe.
//
// Guarantees: a rank is started at most once; none in a slot, or for a job,
// whose earlier process is not gone; what is told stays told until it is
// acknowledged.
class MemberTable {
 public:
  using Key = std::tuple<std::string, int64_t, int32_t>;  // job, attempt, rank

  struct Actions {
    struct Start {
      GangMembers::Id id;
      v1::MemberAssignment assignment;
    };
    std::vector<Start> start;
    std::vector<GangMembers::Id> stop;
    // Those that hang, or do not end although they are done.
    std::vector<GangMembers::Id> kill;
    // Models of ended ranks, to be sent once more.
    std::vector<v1::MemberKey> upload_again;
    // Models no longer wanted.
    std::vector<v1::MemberKey> abandon;
  };

  // `steady` is monotonic: how long ranks stand still is measured with it.
  explicit MemberTable(const std::vector<v1::Slot>& slots,
                       std::function<absl::Time()> steady = SteadyNow);

  // All that is to run here from now on.
  void SetDesired(
      const google::protobuf::RepeatedPtrField<v1::MemberAssignment>& desired);

  // What is to be done to get there; each action is named once. Every start
  // must be followed by StartFailed (FailedPrecondition: the slot is unfit) or,
  // later, OnExit.
  Actions Reconcile(absl::Time now);
  void StartFailed(GangMembers::Id id, const absl::Status& status,
                   absl::Time now);

  // In place of StartFailed: the rank's data could not be fetched (errors of
  // DataFetcher). What is being stopped has no failure of its own.
  void FetchFailed(GangMembers::Id id, const absl::Status& status,
                   absl::Time now);
  // Whether the rank is to be started still: known, and not being stopped.
  bool IsAwaited(GangMembers::Id id) const;
  // The rank's data are here, and its process is not there yet: it gives no
  // sign of life from Preparing() to Launching().
  void Preparing(GangMembers::Id id);
  void Launching(GangMembers::Id id);

  // False: the process is unknown.
  bool OnEvent(GangMembers::Id id, const v1::TrainerEvent& event);
  // The rank whose model is now to be uploaded, if there is one.
  std::optional<v1::MemberKey> OnExit(GangMembers::Id id,
                                      const MemberExit& exit, absl::Time now);
  // Aborted and NotFound: nobody wants the model any more.
  void OnUpload(const v1::MemberKey& rank,
                const absl::StatusOr<std::vector<v1::Artifact>>& models,
                absl::Time now);

  // Adds statuses and reports; an end is told after the last report. Returns
  // whether the call carries news, i.e. wants an answer at once. `cut_off`: the
  // coordinator has been away, for which ranks that prepare had to wait.
  bool Fill(v1::SynchronizeRequest* request, bool cut_off = false);
  // The call that Fill prepared arrived.
  void OnAnswer(const v1::SynchronizeResponse& response);

  // The ranks were not wanted by this worker itself: it is ending.
  void ShutDown() { shutting_down_ = true; }
  // The coordinator was not heard for too long: the ranks are to save what they
  // have and end; none is started before it is heard again.
  void GiveUpCoordinator(const std::string& why) { gave_up_ = why; }

  // Addresses of the workers that keep copies of the rank's checkpoints.
  std::vector<std::string> Replicas(const v1::MemberKey& rank) const;
  std::optional<v1::MemberAssignment> Assignment(GangMembers::Id id) const;

  // Jobs without a rank here that have ended, since the last call.
  std::vector<std::string> PopFinishedJobs();
  // Attempts without a rank here, since the last call.
  std::vector<std::pair<std::string, int64_t>> PopFinishedAttempts();

  std::optional<v1::MemberKey> Find(GangMembers::Id id) const;
  std::set<std::string> Jobs() const;
  // Gangs with ranks on other workers too. Also once they have met: an entry
  // may tell the others that a rank has ended.
  std::set<std::pair<std::string, int64_t>> SpanningGangs() const;
  // Some of them are not known to have met.
  bool AnyMeeting() const;
  bool HasProcesses() const;
  std::vector<GangMembers::Id> Processes() const;

 private:
  struct Rank {
    v1::MemberAssignment assignment;
    GangMembers::Id id = 0;
    bool process = true;  // Not verified gone.
    bool uploading = false;
    bool stopping = false;
    // Killed although its training had ended well.
    bool forced = false;
    bool kill_told = false;
    bool preparing = false;
    // Why this worker itself stopped it; empty: it did not.
    std::string stop_why;
    // By steady_: since when its Heartbeat is as it is, its last sign of life,
    // and its result.
    absl::Time progress_time;
    absl::Time heard_time;
    absl::Time result_time = absl::InfiniteFuture();
    int64_t work = 0;
    v1::MemberStatus status;  // As told, but for what waits for the upload.
    std::optional<v1::TrainingResult> result;
    std::optional<v1::Failure> failure;
    v1::Stage told_stage = v1::STAGE_UNSPECIFIED;
    // As of the last answered call.
    v1::MemberStatus told;
  };

  template <typename Message>
  static Key KeyOf(const Message& message) {
    return {message.job(), message.attempt(), message.rank()};
  }
  static v1::MemberKey ToProto(const Key& key);
  Rank* FindById(GangMembers::Id id);
  bool MayStart(const v1::MemberAssignment& assignment) const;
  void End(Rank& rank);

  // Time in which this daemon did not look is no rank's silence.
  void ForgiveOwnPause();

  const std::function<absl::Time()> steady_;
  absl::Time last_look_ = absl::InfiniteFuture();
  // Why the coordinator was given up; empty: it was not.
  std::string gave_up_;
  std::set<Key> kill_;
  std::set<Key> upload_again_;
  std::set<int32_t> slots_;
  bool shutting_down_ = false;
  GangMembers::Id next_id_ = 1;
  std::map<Key, v1::MemberAssignment> desired_;
  std::map<Key, Rank> ranks_;
  // Newest attempt of each (job, rank) that was begun here.
  std::map<std::pair<std::string, int32_t>, int64_t> begun_;
  std::map<std::pair<std::string, int64_t>, ReportQueue> reports_;
  // Statuses of the call under way.
  std::map<Key, v1::MemberStatus> sent_;
  std::set<std::string> finished_jobs_;
  std::vector<std::pair<std::string, int64_t>> finished_attempts_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_TABLE_H_
