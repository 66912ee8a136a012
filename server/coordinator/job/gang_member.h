#ifndef COMERA_SERVER_COORDINATOR_JOB_GANG_MEMBER_H_
#define COMERA_SERVER_COORDINATOR_JOB_GANG_MEMBER_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// Whether the member's process is known to be gone, or its worker is.
bool HasEnded(const MemberRecord& member);

// One process of a gang: its stored record, and what the coordinator remembers
// of it in memory. Its phase never goes back, and a lost member stays lost. Not
// thread-safe.
class GangMember {
 public:
  // `record` must outlive it.
  GangMember(int32_t number, MemberRecord* record, absl::Time now)
      : number_(number), record_(record), last_listed_(now) {}

  // Position in the gang, from 0. Member 0 reports for all.
  int32_t number() const { return number_; }
  const std::string& worker() const { return record_->worker(); }
  int32_t slot() const { return record_->slot(); }
  bool lost() const { return record_->lost(); }
  const MemberRecord& record() const { return *record_; }

  bool HasEnded() const { return server::HasEnded(*record_); }
  bool HasStarted() const;
  // Whether it was placed on this life of the worker.
  bool RunsOn(const std::string& worker, const std::string& incarnation) const;

  void Lose() { record_->set_lost(true); }
  // Returns whether the phase is a later one than before.
  bool AdvancePhase(v1::MemberStatus::Phase phase);
  // Keeps the result of training and the models that came with it.
  void SetResult(const v1::MemberStatus& status);

  // Its worker has listed it, or could not have yet.
  void MarkListed(absl::Time now) { last_listed_ = now; }
  // How long its process has given no sign of life, as its worker says; zero
  // while the worker still prepares the start.
  void set_silent(absl::Duration silent) { silent_ = silent; }
  // Also while its start is prepared, e.g. a checkpoint is fetched.
  void set_stalled(absl::Duration stalled) { stalled_ = stalled; }
  // Whether a member that was placed longer than `deadline` ago has started too
  // late: its worker has never listed it, or its process has been silent for
  // that long, or nothing has moved. A worker that fetches a large checkpoint
  // may take its time.
  bool IsStartOverdue(absl::Duration deadline) const;
  // The worker's answers from this version on ask for the member.
  void set_start_version(int64_t version) { start_version_ = version; }
  // The worker's answers from this version on ask for it no more.
  void set_stop_version(int64_t version) { stop_version_ = version; }

  enum class Absence {
    // The worker may still be about to start it.
    kTolerated,
    // The worker knows that the member is not wanted, and has none.
    kNeverStarted,
    // The worker knows that the member is wanted, and has none for too long.
    kMissing,
  };
  // What it means that the worker, which has seen its answer of
  // `seen_version`, does not list the member.
  Absence JudgeAbsence(bool stopping, int64_t seen_version, absl::Time now,
                       absl::Duration missing_after) const;

 private:
  int32_t number_;
  MemberRecord* record_;
  absl::Time last_listed_;
  absl::Duration silent_;
  absl::Duration stalled_;
  int64_t start_version_ = 0;
  int64_t stop_version_ = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_GANG_MEMBER_H_
