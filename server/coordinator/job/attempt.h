#ifndef COMERA_SERVER_COORDINATOR_JOB_ATTEMPT_H_
#define COMERA_SERVER_COORDINATOR_JOB_ATTEMPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/gang_member.h"
#include "server/coordinator/job/hang_watch.h"
#include "server/coordinator/job/rendezvous_mirror.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// One placement of a job's gang: the stored record, and what the coordinator
// remembers of it in memory.
//
// Life: Begin(), AddMember() for each, then the members report; it stops when
// one fails or somebody asks for it; it is over when all members have ended,
// and, if there is a result, the models have arrived. End() forgets it. Between
// attempts there are no members. Not thread-safe.
class Attempt {
 public:
  static constexpr int kMaxUploads = 256;
  // Ended attempts whose workers are remembered.
  static constexpr int kMaxEnded = 4;
  // By how much the clocks of two coordinators may differ before the running
  // time of a job is measured too long when one takes over from the other.
  static constexpr absl::Duration kClockTolerance = absl::Minutes(1);
  // Lines of an attempt's log are taken for so long after its end.
  static constexpr absl::Duration kLateLogs = absl::Minutes(10);

  // The record of the job; it must outlive this.
  explicit Attempt(JobRecord* record);
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void Begin(absl::Time now);
  void AddMember(const std::string& worker, const std::string& incarnation,
                 int32_t slot, absl::Time now);
  // Takes over what an earlier coordinator has placed. Workers know of it from
  // version `first_version` of their answers on.
  void Restore(int64_t first_version, absl::Time now);
  // No worker could say anything of it until now.
  void ForgiveSilence(absl::Time now);
  // Goes on with an attempt that had been given up: its record, as it was.
  void Readopt(const AttemptRecord& record, absl::Time now);
  // Most workers are silent, one of its own among them. Returns whether that is
  // news.
  bool NoteMassSilence();
  // It works again: it has saved a state since.
  void NoteProgress();
  // Adds the time that it ran to the job's.
  void End(absl::Time now);

  // Attempts of a job are numbered from 1.
  int64_t number() const { return job_record_->job().attempt(); }
  const AttemptRecord& record() const { return job_record_->attempt(); }
  std::vector<GangMember>& members() { return members_; }
  const std::vector<GangMember>& members() const { return members_; }
  // Null if there is none of that number.
  GangMember* FindMember(int32_t number);
  int32_t CountMembersOn(const std::string& worker) const;
  // Whether a member of that number runs on the worker in this attempt, or ran
  // there in an earlier one that ended within kLateLogs.
  bool RanOn(const std::string& worker, int64_t attempt, int32_t member,
             absl::Time now) const;

  bool AllStarted() const;
  bool AllEnded() const;
  bool HasFailures() const { return record().failures_size() > 0; }
  // Member 0 left a result: training is over, whatever the others do.
  bool HasResult() const;
  // Member 0's models lie whole in the coordinator's files, or it has none.
  bool ModelsAreStored() const;
  // Whether its worker is to run the member.
  bool IsWanted(const GangMember& member) const;
  // Whether the member's slot may not be given to others yet. The slots of a
  // gang that makes room come free together, so that nobody picks them one by
  // one.
  bool HoldsSlot(const GangMember& member) const;

  // Stopping.
  bool stopping() const { return record().stopping(); }
  // Somebody asked it to stop, so that nothing that goes wrong from then on is
  // charged to the job.
  bool stop_requested() const {
    return record().stop_cause() != AttemptRecord::NOT_ASKED;
  }
  // Returns false if it was stopping already.
  bool Stop();
  // Asks member 0 to end soon and to leave its best model.
  void Finish(absl::Time now);
  bool finishing() const { return record().has_finish_time(); }
  // The time since member 0 was asked, while it has left no model nor ended;
  // zero: it was not asked, or has.
  absl::Duration AwaitsModelFor(absl::Time now) const;
  // Member 0 has left the model that it was asked for; its training is not
  // over.
  bool LeftModel() const;
  void SetStopRequest(AttemptRecord::StopCause cause, const std::string& reason,
                      absl::Time now);

  // Time.
  absl::Time placed() const { return placed_; }
  // When the scheduler placed it, whichever coordinator that was.
  absl::Time PlacedTime() const;
  void MarkRunning(absl::Time now);
  // The record is about to be written, now.
  void MarkWritten(absl::Time now);
  // Another coordinator wrote the record, or an earlier process of this one, by
  // a clock that may differ. From here on the time that the attempt runs is
  // counted by this one's, which is known to be ahead by `lead`.
  void AdoptClock(absl::Duration lead, absl::Time now);
  // How long all members have been running; zero before. Each change of the
  // coordinator may make it shorter, by kClockTolerance and the difference of
  // the clocks.
  absl::Duration RunningFor(absl::Time now) const;
  // Notes when the result was first seen.
  void NoteResult(absl::Time now);
  absl::Duration SinceResult(absl::Time now) const {
    return now - result_time_;
  }

  // Failures.
  // Records a failure, and returns it as it was recorded: bounded, with a class
  // and a time that fits the attempt. Nothing if there are too many.
  std::optional<v1::Failure> AddFailure(v1::Failure failure, absl::Time now);
  // Adds the log of a member to what was found out about it without one.
  void AddLogTail(int32_t member, const std::string& tail);
  // The member for which the gang waits in vain, the first time that is found.
  std::optional<HangWatch::Hang> DetectHang(const HangWatch::Options& options);

  // Reports.
  // Notes a member's progress; the number must be that of a member.
  void ObserveMember(const v1::MemberStatus& status, absl::Time now);
  // Accepts the progress report of this number if it is later than all before.
  bool AcceptReport(int64_t number);
  void AddUpload(const std::string& artifact, const v1::ArtifactFile& file);
  RendezvousMirror& rendezvous() { return rendezvous_; }
  const RendezvousMirror& rendezvous() const { return rendezvous_; }

 private:
  void LoadMembers();
  // Remembers where its members ran.
  void NoteEnded(absl::Time now);
  // Forgets that the attempt has ended.
  void ForgetEnded(int64_t attempt);
  AttemptRecord& mutable_record() { return *job_record_->mutable_attempt(); }

  JobRecord* const job_record_;
  std::vector<GangMember> members_;
  RendezvousMirror rendezvous_;
  HangWatch hang_;
  absl::Time placed_;
  // Whether this coordinator placed it, not an earlier one.
  bool placed_here_ = false;
  absl::Time result_time_ = absl::InfiniteFuture();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_ATTEMPT_H_
