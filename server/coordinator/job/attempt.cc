// Implements Attempt: how one placement of a gang begins, fails, stops, ends.
#include "server/coordinator/job/attempt.h"

#include <algorithm>
#include <utility>

#include "common/text.h"
#include "server/coordinator/job/state_holders.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr size_t kMaxMessageBytes = 4096;
constexpr size_t kMaxReasonBytes = 1024;
constexpr int kMaxFailures = 4096;

bool IsStored(const v1::Artifact& model, const AttemptRecord& attempt) {
  for (const v1::ArtifactFile& file : model.files()) {
    const bool stored =
        std::any_of(attempt.uploads().begin(), attempt.uploads().end(),
                    [&](const UploadedFile& upload) {
                      return upload.artifact() == model.name() &&
                             upload.file().path() == file.path() &&
                             upload.file().sha256() == file.sha256() &&
                             upload.file().size_bytes() == file.size_bytes();
                    });
    if (!stored) return false;
  }
  return model.files_size() > 0;
}

}  // namespace

Attempt::Attempt(JobRecord* record) : job_record_(record) { LoadMembers(); }

void Attempt::LoadMembers() {
  members_.clear();
  if (!job_record_->has_attempt()) return;
  for (int i = 0; i < record().members_size(); ++i) {
    members_.emplace_back(i, mutable_record().mutable_members(i),
                          absl::InfinitePast());
  }
}

void Attempt::Readopt(const AttemptRecord& record, absl::Time now) {
  mutable_record() = record;
  ForgetEnded(number());
  LoadMembers();
  rendezvous_ = RendezvousMirror();
  hang_.Reset();
  // Its workers knew of it before they fell silent.
  Restore(/*first_version=*/0, now);
}

bool Attempt::NoteMassSilence() {
  if (record().mass_silence()) return false;
  mutable_record().set_mass_silence(true);
  return true;
}

void Attempt::NoteProgress() {
  if (record().mass_silence()) mutable_record().set_mass_silence(false);
}

void Attempt::Begin(absl::Time now) {
  members_.clear();
  rendezvous_ = RendezvousMirror();
  hang_.Reset();
  placed_ = now;
  placed_here_ = true;
  result_time_ = absl::InfiniteFuture();
  job_record_->mutable_job()->set_attempt(number() + 1);
  job_record_->clear_last_workers();
  job_record_->set_resizing(false);
  mutable_record().Clear();
  *mutable_record().mutable_placed_time() = ToTimestamp(now);
}

void Attempt::AddMember(const std::string& worker,
                        const std::string& incarnation, int32_t slot,
                        absl::Time now) {
  if (members_.empty()) NoteStateRunner(worker, job_record_);
  MemberRecord& member = *mutable_record().add_members();
  member.set_worker(worker);
  member.set_incarnation(incarnation);
  member.set_slot(slot);
  members_.emplace_back(static_cast<int32_t>(members_.size()), &member, now);
  const auto& workers = job_record_->last_workers();
  if (std::find(workers.begin(), workers.end(), worker) == workers.end()) {
    job_record_->add_last_workers(worker);
  }
}

void Attempt::ForgiveSilence(absl::Time now) {
  if (!record().has_running_since()) placed_ = now;
  if (HasResult()) result_time_ = now;
  for (GangMember& member : members_) member.MarkListed(now);
}

void Attempt::Restore(int64_t first_version, absl::Time now) {
  ForgiveSilence(now);
  placed_ = now;
  for (GangMember& member : members_) {
    member.set_start_version(first_version);
    member.set_stop_version(first_version);
  }
}

void Attempt::End(absl::Time now) {
  const absl::Duration ran = RunningFor(now);
  if (record().has_running_since()) {
    job_record_->set_running_micros(job_record_->running_micros() +
                                    absl::ToInt64Microseconds(ran));
  }
  NoteEnded(now);
  members_.clear();
  rendezvous_ = RendezvousMirror();
  job_record_->clear_attempt();
}

void Attempt::ForgetEnded(int64_t attempt) {
  auto& all = *job_record_->mutable_ended_attempts();
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](const EndedAttempt& one) {
                             return one.attempt() == attempt;
                           }),
            all.end());
}

void Attempt::NoteEnded(absl::Time now) {
  ForgetEnded(number());
  auto& all = *job_record_->mutable_ended_attempts();
  const auto is_over = [&](const EndedAttempt& one) {
    return now - FromTimestamp(one.end_time()) > kLateLogs;
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_over), all.end());
  if (all.size() >= kMaxEnded) all.erase(all.begin());
  EndedAttempt& ended = *all.Add();
  ended.set_attempt(number());
  *ended.mutable_end_time() = ToTimestamp(now);
  for (const GangMember& member : members_) {
    const auto& workers = ended.workers();
    const auto known =
        std::find(workers.begin(), workers.end(), member.worker());
    ended.add_worker_of_member(static_cast<int32_t>(known - workers.begin()));
    if (known == workers.end()) ended.add_workers(member.worker());
  }
}

bool Attempt::RanOn(const std::string& worker, int64_t attempt, int32_t member,
                    absl::Time now) const {
  if (member < 0) return false;
  if (attempt == number() && !members_.empty()) {
    return member < static_cast<int32_t>(members_.size()) &&
           members_[member].worker() == worker;
  }
  for (const EndedAttempt& one : job_record_->ended_attempts()) {
    if (one.attempt() != attempt) continue;
    return now - FromTimestamp(one.end_time()) <= kLateLogs &&
           member < one.worker_of_member_size() &&
           one.workers(one.worker_of_member(member)) == worker;
  }
  return false;
}

GangMember* Attempt::FindMember(int32_t number) {
  if (number < 0 || number >= static_cast<int32_t>(members_.size())) {
    return nullptr;
  }
  return &members_[number];
}

int32_t Attempt::CountMembersOn(const std::string& worker) const {
  return std::count_if(
      members_.begin(), members_.end(),
      [&](const GangMember& member) { return member.worker() == worker; });
}

bool Attempt::AllStarted() const {
  return std::all_of(
      members_.begin(), members_.end(),
      [](const GangMember& member) { return member.HasStarted(); });
}

bool Attempt::AllEnded() const {
  return std::all_of(
      members_.begin(), members_.end(),
      [](const GangMember& member) { return member.HasEnded(); });
}

bool Attempt::HasResult() const {
  return !members_.empty() && members_[0].record().has_result();
}

bool Attempt::ModelsAreStored() const {
  const MemberRecord& member = members_[0].record();
  return (member.model().name().empty() ||
          IsStored(member.model(), record())) &&
         std::all_of(member.target_models().begin(),
                     member.target_models().end(),
                     [&](const v1::Artifact& model) {
                       return IsStored(model, record());
                     });
}

bool Attempt::IsWanted(const GangMember& member) const {
  return !stopping() && !member.HasEnded();
}

bool Attempt::HoldsSlot(const GangMember& member) const {
  return !member.HasEnded() || (stop_requested() && !member.lost());
}

void Attempt::Finish(absl::Time now) {
  *mutable_record().mutable_finish_time() = ToTimestamp(now);
}

absl::Duration Attempt::AwaitsModelFor(absl::Time now) const {
  if (!finishing() || stopping() || HasResult() || members_[0].HasEnded()) {
    return absl::ZeroDuration();
  }
  // Never zero, and never less for a clock that was set back.
  return std::max(now - FromTimestamp(record().finish_time()),
                  absl::Nanoseconds(1));
}

bool Attempt::LeftModel() const {
  return finishing() && HasResult() &&
         members_[0].record().result().outcome() == v1::OUTCOME_UNSPECIFIED;
}

bool Attempt::Stop() {
  if (stopping()) return false;
  mutable_record().set_stopping(true);
  return true;
}

void Attempt::SetStopRequest(AttemptRecord::StopCause cause,
                             const std::string& reason, absl::Time now) {
  AttemptRecord& attempt = mutable_record();
  attempt.set_stop_cause(cause);
  attempt.set_stop_reason(TruncateUtf8(reason, kMaxReasonBytes));
  *attempt.mutable_stop_time() = ToTimestamp(now);
}

absl::Time Attempt::PlacedTime() const {
  return record().has_placed_time() ? FromTimestamp(record().placed_time())
                                    : placed_;
}

void Attempt::MarkRunning(absl::Time now) {
  *mutable_record().mutable_running_since() = ToTimestamp(now);
}

void Attempt::MarkWritten(absl::Time now) {
  if (!record().has_running_since()) return;
  *mutable_record().mutable_written_time() = ToTimestamp(now);
}

void Attempt::AdoptClock(absl::Duration lead, absl::Time now) {
  if (!record().has_running_since()) return;
  const absl::Time since = FromTimestamp(record().running_since());
  const absl::Time written = record().has_written_time()
                                 ? FromTimestamp(record().written_time())
                                 : since;
  // The first part was measured by one clock. Of the rest, only what cannot be
  // the difference between two clocks is sure to have passed.
  const absl::Duration ran =
      std::max(written - since, absl::ZeroDuration()) +
      std::max(now - lead - written - kClockTolerance, absl::ZeroDuration());
  MarkRunning(now - ran);
  MarkWritten(now);
}

absl::Duration Attempt::RunningFor(absl::Time now) const {
  if (!record().has_running_since()) return absl::ZeroDuration();
  // The clock may have been set back.
  return std::max(now - FromTimestamp(record().running_since()),
                  absl::ZeroDuration());
}

void Attempt::NoteResult(absl::Time now) {
  if (HasResult() && result_time_ == absl::InfiniteFuture()) {
    result_time_ = now;
  }
}

std::optional<v1::Failure> Attempt::AddFailure(v1::Failure failure,
                                               absl::Time now) {
  if (record().failures_size() >= kMaxFailures) return std::nullopt;
  if (failure.failure_class() == v1::FAILURE_CLASS_UNSPECIFIED) {
    failure.set_failure_class(v1::INTERNAL);
  }
  // Other machines' clocks may be wrong, and the first failure is the cause.
  absl::Time time = failure.has_time() ? FromTimestamp(failure.time()) : now;
  if (placed_here_) time = std::max(time, placed_);
  *failure.mutable_time() = ToTimestamp(std::min(time, now));
  failure.set_attempt(number());
  failure.set_message(TruncateUtf8(failure.message(), kMaxMessageBytes));
  failure.set_log_tail(TruncateUtf8(failure.log_tail(), kMaxMessageBytes));
  *mutable_record().add_failures() = failure;
  return failure;
}

void Attempt::AddLogTail(int32_t member, const std::string& tail) {
  for (v1::Failure& failure : *mutable_record().mutable_failures()) {
    if (failure.rank() == member && failure.log_tail().empty()) {
      failure.set_log_tail(TruncateUtf8(tail, kMaxMessageBytes));
    }
  }
}

std::optional<HangWatch::Hang> Attempt::DetectHang(
    const HangWatch::Options& options) {
  if (stopping() || HasResult()) return std::nullopt;
  std::optional<HangWatch::Hang> hang = hang_.Find(options, record());
  if (hang) mutable_record().set_hung(true);
  return hang;
}

void Attempt::ObserveMember(const v1::MemberStatus& status, absl::Time now) {
  members_[status.rank()].MarkListed(now);
  members_[status.rank()].set_silent(FromProtoDuration(status.silent()));
  members_[status.rank()].set_stalled(FromProtoDuration(status.stalled()));
  hang_.Observe(status, now);
}

bool Attempt::AcceptReport(int64_t number) {
  // Workers begin with the first report that was not acknowledged, and leave
  // out only what they dropped themselves.
  if (number <= record().last_report()) return false;
  mutable_record().set_last_report(number);
  return true;
}

void Attempt::AddUpload(const std::string& artifact,
                        const v1::ArtifactFile& file) {
  AttemptRecord& attempt = mutable_record();
  for (UploadedFile& upload : *attempt.mutable_uploads()) {
    if (upload.artifact() == artifact && upload.file().path() == file.path()) {
      *upload.mutable_file() = file;
      return;
    }
  }
  UploadedFile* upload = attempt.add_uploads();
  upload->set_artifact(artifact);
  *upload->mutable_file() = file;
}

}  // namespace comera::server
