// Keeps the list of a job's checkpoints and of the workers that hold them.
#include "server/coordinator/job/job_checkpoints.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "proto/job_state.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr int kMaxNamed = 64;

v1::Checkpoint* FindStep(int64_t step, v1::Job* job) {
  for (v1::Checkpoint& checkpoint : *job->mutable_checkpoints()) {
    if (checkpoint.step() == step) return &checkpoint;
  }
  return nullptr;
}

bool SetHolder(const std::string& worker, bool holds,
               v1::Checkpoint* checkpoint) {
  auto& workers = *checkpoint->mutable_workers();
  const auto at = std::find(workers.begin(), workers.end(), worker);
  if ((at != workers.end()) == holds) return false;
  if (holds) {
    *workers.Add() = worker;
  } else {
    workers.erase(at);
  }
  return true;
}

bool IsHeld(const v1::Checkpoint& checkpoint) {
  return !checkpoint.workers().empty() || checkpoint.durable() ||
         checkpoint.has_file();
}

bool Lists(const std::vector<v1::HeldCheckpoint>& held,
           v1::HeldCheckpoint::Place place, const v1::Checkpoint& checkpoint) {
  return std::any_of(
      held.begin(), held.end(), [&](const v1::HeldCheckpoint& one) {
        return one.place() == place &&
               SameState(one.attempt(), one.step(), checkpoint.attempt(),
                         checkpoint.step());
      });
}

void UpdateDurable(const HeldReport& report, v1::Checkpoint* checkpoint) {
  if (Lists(report.held, v1::HeldCheckpoint::DURABLE, *checkpoint)) {
    checkpoint->set_durable(true);
  } else if (!checkpoint->has_file() &&
             (Lists(report.no_longer_durable, v1::HeldCheckpoint::DURABLE,
                    *checkpoint) ||
              Lists(report.unreachable, v1::HeldCheckpoint::DURABLE,
                    *checkpoint))) {
    checkpoint->set_durable(false);
  }
}

std::vector<bool> ListDurable(const v1::Job& job) {
  std::vector<bool> durable;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    durable.push_back(checkpoint.durable());
  }
  return durable;
}

int CountKept(const v1::Job& job) {
  return std::clamp(job.spec().checkpoint().keep(), 2, kMaxNamed / 2);
}

// Workers remove all but the newest from the store. This is seen even if the
// one that knew of the older ones was restarted since.
void ExpireDurable(v1::Job* job) {
  int kept = CountKept(*job);
  auto& all = *job->mutable_checkpoints();
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (!it->durable() || it->has_file() || kept-- > 0) continue;
    it->set_durable(false);
  }
}

// Forgets those that nobody holds and that nobody needs.
bool DropLost(const HeldReport& report, bool over, v1::Job* job) {
  auto& all = *job->mutable_checkpoints();
  int64_t newest_held = -1;
  for (const v1::Checkpoint& checkpoint : all) {
    if (IsHeld(checkpoint)) {
      newest_held = std::max(newest_held, checkpoint.step());
    }
  }
  const auto rest = std::remove_if(
      all.begin(), all.end(), [&](const v1::Checkpoint& checkpoint) {
        return !IsHeld(checkpoint) &&
               !Lists(report.unreachable, v1::HeldCheckpoint::DURABLE,
                      checkpoint) &&
               (over || checkpoint.step() < newest_held);
      });
  const bool changed = rest != all.end();
  all.erase(rest, all.end());
  return changed;
}

}  // namespace

void RecordSaved(const v1::CheckpointSaved& saved, int64_t attempt,
                 const std::string& worker, absl::Time now, v1::Job* job) {
  v1::Checkpoint* checkpoint = FindStep(saved.step(), job);
  if (checkpoint == nullptr) {
    checkpoint = job->add_checkpoints();
    checkpoint->set_name(
        absl::StrCat(job->name(), "/checkpoints/", saved.step()));
    checkpoint->set_step(saved.step());
  } else if (checkpoint->attempt() != attempt) {
    // What others hold is the file of another attempt.
    checkpoint->clear_workers();
    checkpoint->set_durable(false);
  }
  checkpoint->set_attempt(attempt);
  checkpoint->set_size_bytes(saved.size_bytes());
  *checkpoint->mutable_create_time() = ToTimestamp(now);
  checkpoint->set_stage(job->progress().stage());
  SetHolder(worker, true, checkpoint);
  auto& all = *job->mutable_checkpoints();
  std::sort(all.begin(), all.end(),
            [](const v1::Checkpoint& a, const v1::Checkpoint& b) {
              return a.step() < b.step();
            });
  int surplus = all.size() - CountKept(*job);
  for (auto it = all.begin(); it != all.end() && surplus > 0; --surplus) {
    it = it->durable() && all.size() <= kMaxNamed ? it + 1 : all.erase(it);
  }
}

bool UpdateHeld(const HeldReport& report, bool over, v1::Job* job) {
  bool changed = false;
  // What is listed beyond what is kept would change to and fro.
  const std::vector<bool> durable = ListDurable(*job);
  for (v1::Checkpoint& checkpoint : *job->mutable_checkpoints()) {
    const bool holds =
        Lists(report.held, v1::HeldCheckpoint::DISK, checkpoint) ||
        Lists(report.held, v1::HeldCheckpoint::MEMORY, checkpoint);
    changed = SetHolder(report.worker, holds, &checkpoint) || changed;
    UpdateDurable(report, &checkpoint);
  }
  ExpireDurable(job);
  changed = ListDurable(*job) != durable || changed;
  return DropLost(report, over, job) || changed;
}

bool AreStatesOver(const v1::Job& job, absl::Duration keep, absl::Time now) {
  if (!IsFinal(job.state())) return false;
  if (job.state() == v1::SUCCEEDED || !job.has_end_time() ||
      !job.sweep().empty()) {
    return true;
  }
  return FromTimestamp(job.end_time()) + keep <= now;
}

bool MayHaveExpired(size_t reported, const v1::Job& job, bool over) {
  return reported > (over ? 0 : static_cast<size_t>(CountKept(job)));
}

bool IsAnnounced(const v1::HeldCheckpoint& held, const v1::Job& job) {
  return std::any_of(job.checkpoints().begin(), job.checkpoints().end(),
                     [&](const v1::Checkpoint& named) {
                       return SameState(named.attempt(), named.step(),
                                        held.attempt(), held.step());
                     });
}

std::vector<v1::HeldCheckpoint> ExpiredStates(
    const std::vector<v1::HeldCheckpoint>& reported,
    const std::vector<v1::HeldCheckpoint>& present,
    const TrainingLineage& lineage, const v1::Job& job, bool over) {
  // Whether it is part of the training, its step, and its attempt.
  using Rank = std::tuple<bool, int64_t, int64_t>;
  const auto rank = [&](const auto& state) {
    return Rank(lineage.Contains(state.attempt(), state.step()), state.step(),
                state.attempt());
  };
  // One state that is listed twice, with its attempt and without, counts once.
  std::vector<const v1::Checkpoint*> kept;
  for (const v1::Checkpoint& named : job.checkpoints()) {
    if (!over && Lists(present, v1::HeldCheckpoint::DURABLE, named)) {
      kept.push_back(&named);
    }
  }
  std::sort(kept.begin(), kept.end(),
            [&](const v1::Checkpoint* a, const v1::Checkpoint* b) {
              return rank(*a) > rank(*b);
            });
  const size_t most = over ? 0 : static_cast<size_t>(CountKept(job));
  if (kept.size() < most) return {};
  kept.resize(most);
  std::vector<v1::HeldCheckpoint> expired;
  for (const v1::HeldCheckpoint& held : reported) {
    // A database that was restored may not know of an attempt yet.
    if (held.place() != v1::HeldCheckpoint::DURABLE ||
        held.attempt() > job.attempt() ||
        (!kept.empty() && rank(held) > rank(*kept.back()))) {
      continue;
    }
    const bool is_kept =
        std::any_of(kept.begin(), kept.end(), [&](const v1::Checkpoint* one) {
          return SameState(one->attempt(), one->step(), held.attempt(),
                           held.step());
        });
    if (!is_kept) expired.push_back(held);
  }
  return expired;
}

void DropStale(const TrainingLineage& lineage, v1::Job* job) {
  auto& all = *job->mutable_checkpoints();
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](const v1::Checkpoint& checkpoint) {
                             return !checkpoint.has_file() &&
                                    !lineage.Contains(checkpoint.attempt(),
                                                      checkpoint.step());
                           }),
            all.end());
}

}  // namespace comera::server
