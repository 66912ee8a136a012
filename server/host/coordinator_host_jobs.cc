// Answers the calls that create, show, change and delete jobs, for a
// coordinator's host.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/job_state.h"
#include "server/host/coordinator_host.h"

namespace comera::server {
namespace {

absl::Status NoJob(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no job ", name));
}

}  // namespace

void CoordinatorHost::Submit(PreparedJob job,
                             const absl::StatusOr<PinnedDatasets>& datasets,
                             const JobAudit& audit, Callback<v1::Job> done) {
  if (stopping_) return done(StoppingError());
  if (datasets.ok()) {
    job.set_datasets(datasets->pins);
    return RunThenReply<v1::Job>(
        [job](Coordinator* coordinator, absl::Time now, Effects* effects) {
          return coordinator->Submit(job, now, effects);
        },
        [done, hold = datasets->hold](absl::StatusOr<v1::Job> created) {
          done(std::move(created));
        },
        audit);
  }
  // A repeated request has its job, whatever stands against a new one.
  const absl::StatusOr<v1::Job> found = engine().FindSubmitted(job);
  if (absl::IsNotFound(found.status())) return done(datasets.status());
  RunThenReply<v1::Job>(
      [found](Coordinator*, absl::Time, Effects*) { return found; }, done,
      audit);
}

void CoordinatorHost::SetQuotas(QuotaFinder quotas) {
  loop_->Run([this, &quotas] { quotas_ = std::move(quotas); });
}

void CoordinatorHost::CreateJob(PreparedJob job, Callback<v1::Job> done,
                                JobAudit audit) {
  loop_->Post([this, job = std::move(job), done = std::move(done),
               audit = std::move(audit)] {
    if (stopping_) return done(StoppingError());
    const std::string& user = job.submitter().user;
    const size_t bytes = job.spec().ByteSizeLong();
    const int64_t others =
        observer_ == nullptr ? 0 : observer_->SpecBytesOf(user);
    const absl::Status room =
        admission_.Admit(user, bytes, QuotaOf(user), others);
    if (!room.ok()) return Submit(job, room, audit, done);
    const auto end = [this, user, bytes, done](absl::StatusOr<v1::Job> made) {
      admission_.Settle(user, bytes);
      done(std::move(made));
    };
    PinDatasets(job.spec(),
                [=](const absl::StatusOr<PinnedDatasets>& datasets) {
                  Submit(job, datasets, audit, end);
                });
  });
}

void CoordinatorHost::ResumeJob(v1::ResumeJobRequest request, std::string user,
                                Callback<v1::Job> done, JobAudit audit) {
  loop_->Post([this, request = std::move(request), user = std::move(user),
               done = std::move(done), audit = std::move(audit)] {
    if (stopping_) return done(StoppingError());
    const JobDirectory::Entry* entry = directory_.Find(request.name());
    const v1::JobState state =
        entry == nullptr ? v1::SUCCEEDED : entry->job->state();
    const bool ended = IsFinal(state) && state != v1::SUCCEEDED;
    Callback<v1::Job> end = done;
    if (ended || state == v1::PAUSED) {
      // It will wait again, among its owner's jobs.
      const std::string& owner = entry->job->user();
      const absl::Status room = admission_.AdmitQueued(owner, QuotaOf(owner));
      if (!room.ok()) return done(room);
      end = [this, owner, done](absl::StatusOr<v1::Job> job) {
        admission_.SettleQueued(owner);
        done(std::move(job));
      };
    }
    const auto resume = [=](const absl::StatusOr<PinnedDatasets>& datasets) {
      if (stopping_) return end(StoppingError());
      if (!datasets.ok()) return end(datasets.status());
      // Once it is queued, its versions stay.
      RunThenReply<v1::Job>(
          [request, user](Coordinator* coordinator, absl::Time now,
                          Effects* effects) {
            return coordinator->Resume(request, now, effects, user);
          },
          [end, hold = datasets->hold](absl::StatusOr<v1::Job> job) {
            end(std::move(job));
          },
          audit);
    };
    if (!ended) return resume(PinnedDatasets());
    PinAgain(*entry->job, resume);
  });
}

void CoordinatorHost::CancelJob(std::string name, std::string reason,
                                Callback<v1::Job> done, JobAudit audit) {
  CommitThenReply<v1::Job>(
      [name = std::move(name), reason = std::move(reason)](
          Coordinator* coordinator, absl::Time now, Effects* effects) {
        return coordinator->Cancel(name, reason, now, effects);
      },
      std::move(done), std::move(audit));
}

void CoordinatorHost::RemoveModel(std::string name, Callback<v1::Job> done) {
  loop_->Post([this, name = std::move(name), done = std::move(done)] {
    if (stopping_) return done(StoppingError());
    if (absl::Status status = CheckMakesRoom(); !status.ok()) {
      return done(status);
    }
    Effects effects;
    absl::StatusOr<v1::Job> job =
        mutable_engine()->RemoveModel(name, now(), &effects);
    Commit(std::move(effects),
           [job = std::move(job), done](const absl::Status& status) {
             if (!status.ok()) return done(status);
             done(job);
           });
  });
}

void CoordinatorHost::DeleteJob(std::string name, StatusCallback done) {
  loop_->Post([this, name = std::move(name), done = std::move(done)] {
    if (stopping_) return done(StoppingError());
    absl::Status status = CheckMakesRoom();
    const JobDirectory::Entry* entry = directory_.Find(name);
    if (status.ok() && observer_ != nullptr && entry != nullptr) {
      status = observer_->CheckMayDelete(*entry->job);
    }
    Effects effects;
    if (status.ok()) status = mutable_engine()->Delete(name, &effects);
    if (!status.ok()) return done(status);
    Commit(std::move(effects), [this, name, done](const absl::Status& status) {
      if (status.ok()) RemoveFiles({name}, /*logs_only=*/false);
      done(status);
    });
  });
}

void CoordinatorHost::GetJob(std::string name, Callback<v1::Job> done) {
  // Not on the loop: pollers are many, and a pass over a long queue takes time.
  const std::shared_ptr<const v1::Job> job = directory_.Get(name);
  if (job == nullptr) return done(NoJob(name));
  done(*job);
}

}  // namespace comera::server
