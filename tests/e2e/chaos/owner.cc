// Pauses, cancels, resumes, pins and deletes jobs.
#include "tests/e2e/chaos/owner.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "proto/job_state.h"
#include "tests/e2e/chaos/load.h"
#include "tests/e2e/chaos/specs.h"

namespace comera::e2e {
namespace {

// In units of rounds.
constexpr int kPauseEvery = 7, kCancelEvery = 11, kResumeEvery = 5,
              kPinEvery = 23, kDeleteEvery = 61;
// Succeeded jobs that are looked at for pins and deletions.
constexpr int64_t kLookedAt = 30;

}  // namespace

JobOwner::JobOwner(client::TrainingClient* client, const std::string& addresses,
                   bool plain)
    : client_(client),
      models_(AnyCoordinator(addresses), ChaosClientOptions()),
      plain_(plain) {}

void JobOwner::Act(const std::vector<v1::Job>& jobs, bool finishing) {
  NoteStates(jobs);
  if (finishing || round_ % kResumeEvery == 0) {
    for (const v1::Job& job : jobs) HaveGoOn(job);
  }
  if (!finishing) {
    Interrupt(jobs);
    if (!plain_) Keep();
  }
  ++round_;
}

void JobOwner::NoteStates(const std::vector<v1::Job>& jobs) {
  for (const v1::Job& job : jobs) {
    if (!IsFinal(job.state())) {
      ended_with_state_.erase(job.name());
    } else if (!job.checkpoints().empty()) {
      ended_with_state_.insert(job.name());
    }
  }
}

bool JobOwner::MayGoOn(const v1::Job& job) const {
  return job.sweep().empty() && settled_.count(job.name()) == 0;
}

void JobOwner::HaveGoOn(const v1::Job& job) {
  // Whether it worked shows in the next round.
  if (IsFinal(job.state())) {
    if (job.state() != v1::SUCCEEDED && MayGoOn(job)) Reopen(job);
  } else if (job.state() == v1::PAUSED &&
             absl::StrContains(job.reason(), "--start-over")) {
    // It is tried once more before what it has done is given up.
    const bool start_over = ++asked_[job.name()] > 1;
    if (start_over) ++wishes_[job.name()].start_overs;
    ++wishes_[job.name()].reopens;
    client_->Resume(job.name(), start_over).IgnoreError();
  } else if (job.state() == v1::PAUSED || job.pausing()) {
    // Somebody else's request may come first, and the job end before this one.
    ++wishes_[job.name()].reopens;
    client_->Resume(job.name()).IgnoreError();
  }
}

void JobOwner::Reopen(const v1::Job& job) {
  ++wishes_[job.name()].reopens;
  absl::Status status = client_->Resume(job.name()).status();
  if (!absl::IsFailedPrecondition(status)) {
    // It may have gone on, and given its checkpoint up.
    ended_with_state_.erase(job.name());
    return;
  }
  if (absl::StrContains(status.message(), "keeps no checkpoint")) {
    // The service keeps what a job needs to go on for days.
    if (ended_with_state_.erase(job.name()) > 0) {
      wrong_answers_.push_back(absl::StrCat(
          job.name(), " had ended with a checkpoint, and going on with it was ",
          "answered ", status.ToString()));
    }
    ++wishes_[job.name()].start_overs;
    status = client_->Resume(job.name(), /*start_over=*/true).status();
  }
  // It had finished when it was cancelled.
  if (absl::IsFailedPrecondition(status) &&
      absl::StrContains(status.message(), "ended by itself")) {
    settled_.insert(job.name());
  }
}

void JobOwner::Interrupt(const std::vector<v1::Job>& jobs) {
  const bool cancel = !plain_ && round_ % kCancelEvery == 0;
  if (jobs.empty() || round_ == 0 || (!cancel && round_ % kPauseEvery != 0)) {
    return;
  }
  const v1::Job& job = jobs[round_ % jobs.size()];
  if (!job.sweep().empty() || IsFinal(job.state())) return;
  if (!cancel) {
    client_->Pause(job.name(), "chaos").IgnoreError();
  } else if (job.state() != v1::CANCELLING) {
    ++wishes_[job.name()].cancels;
    client_->Cancel(job.name(), "chaos").IgnoreError();
  }
}

void JobOwner::Keep() {
  const bool pin = round_ % kPinEvery == 1, remove = round_ % kDeleteEvery == 1;
  if (round_ == 1 || (!pin && !remove)) return;
  if (pin && !kept_.empty()) {
    for (const auto& [job, wishes] : wishes_) {
      if (!wishes.pinned.empty()) {
        TryToDeletePinned(job);
        break;
      }
    }
  }
  const auto jobs = client_->List({v1::SUCCEEDED}, kLookedAt);
  if (!jobs.ok()) return;
  for (const v1::Job& job : *jobs) {
    // Others start from it.
    if (LeavesEarlyStage(job.spec()) || !job.sweep().empty() ||
        job.models().empty() || !kept_.insert(job.name()).second) {
      continue;
    }
    return remove ? Delete(job.name()) : Pin(job);
  }
}

void JobOwner::Pin(const v1::Job& job) {
  const std::string& model = job.models().rbegin()->name();
  if (models_.Pin(model).ok()) wishes_[job.name()].pinned.insert(model);
}

void JobOwner::TryToDeletePinned(const std::string& job) {
  const absl::Status status = client_->Delete(job);
  if (status.ok() || absl::IsNotFound(status)) {
    wrong_answers_.push_back(
        absl::StrCat(job, " has a pinned model, and its deletion was answered ",
                     status.ToString()));
  }
}

void JobOwner::Delete(const std::string& job) {
  Wishes& wishes = wishes_[job];
  ++wishes.deletions;
  const absl::Status status = client_->Delete(job);
  wishes.deleted = status.ok();
  // Nobody had asked for it before.
  if (absl::IsNotFound(status)) {
    wrong_answers_.push_back(absl::StrCat(job, " had succeeded, and is gone"));
  }
}

}  // namespace comera::e2e
