// The life of sweeps: creation, starting and ending their runs, and restoring.
#include "server/sweep/sweep_engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/job_state.h"
#include "proto/resource_names.h"
#include "proto/sweep/search_job.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/user_quota.h"

namespace comera::server {
namespace {

// Events that were told and not stored have their numbers below it.
constexpr int64_t kSequenceJump = 1000000;

std::string RequestId(const SweepChildId& child, int restarts) {
  return absl::StrCat(child.sweep, child.stage ? "/stages/" : "/runs/",
                      child.index,
                      restarts > 0 ? absl::StrCat("/", restarts) : "");
}

}  // namespace

bool IsFinal(v1::Sweep::State state) {
  return state == v1::Sweep::SUCCEEDED || state == v1::Sweep::FAILED ||
         state == v1::Sweep::CANCELLED;
}

bool IsSettled(v1::SweepRunState state) {
  return state != v1::SWEEP_RUN_WAITING && state != v1::SWEEP_RUN_ACTIVE;
}

SweepEngine::SweepEngine(const Options& options, IdSource* ids)
    : options_(options), ids_(ids) {}

void SweepEngine::MakeChildren(Entry& entry) {
  v1::Sweep& sweep = entry.sweep();
  for (size_t i = 0; i < entry.plan.stages.size(); ++i) {
    v1::SweepStage* stage = sweep.add_stages();
    stage->set_index(static_cast<int32_t>(i));
    stage->set_state(v1::SWEEP_RUN_WAITING);
    entry.record.add_stages();
  }
  for (size_t i = 0; i < entry.plan.runs.size(); ++i) {
    v1::SweepRun* run = sweep.add_runs();
    run->set_index(static_cast<int32_t>(i));
    run->set_label(entry.plan.runs[i].label);
    run->set_state(v1::SWEEP_RUN_WAITING);
    run->set_stage(entry.plan.runs[i].stage);
    entry.record.add_runs();
  }
}

void SweepEngine::Load(std::vector<StoredSweep> sweeps, absl::Time now) {
  for (StoredSweep& stored : sweeps) {
    const std::string name = stored.record.sweep().name();
    Entry& entry = sweeps_[name];
    entry.record = std::move(stored.record);
    entry.plan = std::move(stored.plan);
    entry.stored = now;
    by_serial_[entry.record.serial()] = name;
    if (!entry.sweep().request_id().empty()) {
      requests_[entry.sweep().request_id()] = name;
    }
    CountSpec(entry.sweep(), 1);
    RebuildFront(entry);
    v1::Sweep& sweep = entry.sweep();
    if (IsFinal(sweep.state())) continue;
    entry.record.set_last_sequence(entry.record.last_sequence() +
                                   kSequenceJump);
    if (static_cast<int>(entry.plan.runs.size()) != sweep.runs_size() ||
        static_cast<int>(entry.plan.stages.size()) != sweep.stages_size()) {
      sweep.set_state(v1::Sweep::FAILED);
      sweep.set_reason(absl::StrCat(
          "this version of the server plans ", entry.plan.runs.size(),
          " runs, not the ", sweep.runs_size(),
          " with which it began: its jobs go on by themselves"));
      *sweep.mutable_end_time() = ToTimestamp(now);
      DropPlan(entry);
      continue;
    }
    if (entry.record.has_search()) {
      entry.search = std::make_unique<SweepSearch>(&entry.record, &entry.plan);
    }
    for (const v1::SweepRun& run : sweep.runs()) {
      if (!run.job().empty()) jobs_[run.job()] = {name, false, run.index()};
    }
    for (const v1::SweepStage& stage : sweep.stages()) {
      if (!stage.job().empty())
        jobs_[stage.job()] = {name, true, stage.index()};
    }
  }
}

int64_t SweepEngine::SpecBytesOf(const std::string& user) const {
  const auto it = spec_bytes_.find(user);
  return it == spec_bytes_.end() ? 0 : it->second;
}

void SweepEngine::CountSpec(const v1::Sweep& sweep, int by) {
  int64_t& bytes = spec_bytes_[sweep.user()];
  bytes += by * static_cast<int64_t>(sweep.spec().ByteSizeLong());
  if (bytes == 0) spec_bytes_.erase(sweep.user());
}

absl::Status SweepEngine::CheckQuota(const std::string& user,
                                     int64_t spec_bytes,
                                     const SweepQuota& quota) const {
  int64_t active = 0, kept = 0, active_of_all = 0;
  for (const auto& [name, entry] : sweeps_) {
    const int goes_on = IsFinal(entry.sweep().state()) ? 0 : 1;
    active_of_all += goes_on;
    if (entry.sweep().user() != user) continue;
    active += goes_on;
    ++kept;
  }
  if (active_of_all >= static_cast<int64_t>(options_.max_active)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(active_of_all, " sweeps are under way"));
  }
  if (quota.active_sweeps > 0 && active >= quota.active_sweeps) {
    return OverQuota(user, active, "sweeps under way", quota.active_sweeps,
                     "user_active_sweeps", "wait for one, or cancel one");
  }
  if (quota.sweeps > 0 && kept >= quota.sweeps) {
    return OverQuota(user, kept, "sweeps", quota.sweeps, "user_sweeps",
                     "delete some that have ended");
  }
  const int64_t used = SpecBytesOf(user) + quota.used_by_jobs;
  if (quota.spec_bytes > 0 && used + spec_bytes > quota.spec_bytes) {
    return OverQuota(user, used, "bytes of jobs' and sweeps' specifications",
                     quota.spec_bytes, "user_job_bytes",
                     "delete finished sweeps and jobs");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Sweep> SweepEngine::Create(
    const v1::CreateSweepRequest& request, PlannedSweep planned,
    const std::string& user, absl::Time now, SweepEffects* effects,
    const SweepQuota& quota) {
  if (!request.request_id().empty()) {
    const auto same = requests_.find(request.request_id());
    if (same != requests_.end()) {
      const v1::Sweep& sweep = sweeps_.at(same->second).sweep();
      if (sweep.user() == user &&
          google::protobuf::util::MessageDifferencer::Equals(sweep.spec(),
                                                             planned.spec)) {
        return sweep;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("request_id \"", request.request_id(),
                       "\" was used for another sweep"));
    }
  }
  if (!request.validate_only()) {
    RETURN_IF_ERROR(CheckQuota(
        user, static_cast<int64_t>(planned.spec.ByteSizeLong()), quota));
  }
  Entry made;
  v1::Sweep& sweep = made.sweep();
  *sweep.mutable_spec() = std::move(planned.spec);
  made.plan = std::move(planned.plan);
  if (IsSearch(sweep.spec().job())) {
    SearchRecord& search = *made.record.mutable_search();
    *search.mutable_candidates() = std::move(planned.candidates);
    search.set_from_history(planned.learned);
  }
  sweep.set_state(v1::Sweep::ACTIVE);
  sweep.set_user(user);
  sweep.set_request_id(request.request_id());
  MakeChildren(made);
  if (made.record.has_search()) {
    SweepSearch(&made.record, &made.plan).Begin(planned.parallel);
  }
  UpdateFront(made);
  UpdateCounts(made);
  if (request.validate_only()) return sweep;

  std::string name;
  do {
    name = SweepName(ids_->NewId());
  } while (sweeps_.count(name) > 0);
  sweep.set_name(name);
  sweep.set_reason("its runs are under way");
  *sweep.mutable_create_time() = ToTimestamp(now);
  made.record.set_serial(by_serial_.empty() ? 1
                                            : by_serial_.rbegin()->first + 1);
  by_serial_[made.record.serial()] = name;
  if (!request.request_id().empty()) requests_[request.request_id()] = name;
  Entry& entry = sweeps_.emplace(name, std::move(made)).first->second;
  CountSpec(entry.sweep(), 1);
  if (entry.record.has_search()) {
    entry.search = std::make_unique<SweepSearch>(&entry.record, &entry.plan);
  }
  Advance(entry, now, effects);
  Store(entry, now, effects);
  return entry.sweep();
}

absl::StatusOr<v1::Sweep> SweepEngine::Cancel(const std::string& name,
                                              const std::string& reason,
                                              absl::Time now,
                                              SweepEffects* effects) {
  Entry* entry = FindEntry(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no sweep ", name));
  }
  v1::Sweep& sweep = entry->sweep();
  if (sweep.state() != v1::Sweep::ACTIVE) return sweep;
  sweep.set_state(v1::Sweep::CANCELLING);
  sweep.set_reason(reason.empty() ? "cancelled by a client"
                                  : absl::StrCat("cancelled: ", reason));
  v1::SweepEvent event;
  event.mutable_state_change()->set_state(sweep.state());
  event.mutable_state_change()->set_reason(sweep.reason());
  AddEvent(*entry, std::move(event), now, effects);
  Advance(*entry, now, effects);
  Store(*entry, now, effects);
  return sweep;
}

absl::Status SweepEngine::Delete(const std::string& name,
                                 SweepEffects* effects) {
  Entry* entry = FindEntry(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no sweep ", name));
  }
  if (!IsFinal(entry->sweep().state())) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " has not ended; cancel it first"));
  }
  CountSpec(entry->sweep(), -1);
  by_serial_.erase(entry->record.serial());
  requests_.erase(entry->sweep().request_id());
  sweeps_.erase(name);
  effects->records[name] = std::nullopt;
  effects->wake.insert(name);
  return absl::OkStatus();
}

void SweepEngine::Created(const SweepChildId& child,
                          const absl::StatusOr<v1::Job>& job, absl::Time now,
                          SweepEffects* effects) {
  Entry* entry = FindEntry(child.sweep);
  if (entry == nullptr || IsFinal(entry->sweep().state())) return;
  entry->creating.erase(child);
  if (absl::IsUnavailable(job.status()) ||
      absl::IsResourceExhausted(job.status())) {
    entry->ask_again = now + options_.retry_after;
    entry->window = 1;
    return DescribeWait(*entry, child, std::string(job.status().message()));
  }
  if (job.ok()) {
    entry->window = std::min<size_t>(2 * entry->window, kMaxSweepRuns);
    DescribeWait(*entry, child, "");
    if (child.stage) {
      entry->sweep().mutable_stages(child.index)->set_job(job->name());
    } else {
      entry->sweep().mutable_runs(child.index)->set_job(job->name());
    }
    jobs_[job->name()] = child;
    // A repeated request may be answered with a job that has ended; its events
    // are still to come.
    ApplyJob(*entry, child, *job, /*complete=*/false);
  } else if (child.stage) {
    v1::SweepStage& stage = *entry->sweep().mutable_stages(child.index);
    stage.set_state(v1::SWEEP_RUN_FAILED);
    stage.set_reason(std::string(job.status().message()));
    entry->changed_stages.insert(child.index);
  } else {
    SettleRun(*entry, child.index, v1::SWEEP_RUN_FAILED,
              std::string(job.status().message()));
  }
  Advance(*entry, now, effects);
  Store(*entry, now, effects);
}

void SweepEngine::DescribeWait(Entry& entry, const SweepChildId& child,
                               const std::string& why) {
  const auto tell = [&](auto* run, std::set<int>* changed) {
    if (run->reason() == why) return;
    run->set_reason(why);
    changed->insert(child.index);
    entry.unsaved = true;
  };
  if (child.stage) {
    tell(entry.sweep().mutable_stages(child.index), &entry.changed_stages);
  } else {
    tell(entry.sweep().mutable_runs(child.index), &entry.changed_runs);
  }
}

void SweepEngine::NotResumed(const std::string& job) {
  const auto child = jobs_.find(job);
  if (child != jobs_.end()) sweeps_.at(child->second.sweep).resuming.erase(job);
}

void SweepEngine::RequestJob(Entry& entry, const SweepChildId& child,
                             absl::Time now, SweepEffects* effects) {
  if (now < entry.ask_again || entry.creating.size() >= entry.window) return;
  // Until it is answered.
  if (!entry.creating.insert(child).second) return;
  const v1::Sweep& sweep = entry.sweep();
  SweepEffects::Create create;
  create.child = child;
  create.user = sweep.user();
  create.request.set_request_id(
      RequestId(child, RecordOf(entry, child)->restarts()));
  v1::JobSpec& spec = *create.request.mutable_spec();
  if (child.stage) {
    spec = entry.plan.StageSpec(child.index);
  } else {
    spec = entry.plan.RunSpec(child.index);
    const int stage = sweep.runs(child.index).stage();
    if (stage >= 0) {
      spec.mutable_start_from()->set_checkpoint(
          sweep.stages(stage).checkpoint());
    }
  }
  if (entry.search != nullptr) {
    spec =
        entry.search->PlannedSpec({child.stage, child.index}, std::move(spec));
    // Nobody looks after one candidate: it must not wait for its owner.
    spec.mutable_retries()->set_start_over(true);
  }
  effects->create.push_back(std::move(create));
}

void SweepEngine::StartRun(Entry& entry, int index, int* room, absl::Time now,
                           SweepEffects* effects) {
  v1::Sweep& sweep = entry.sweep();
  v1::SweepRun& run = *sweep.mutable_runs(index);
  if (run.stage() >= 0) {
    v1::SweepStage& stage = *sweep.mutable_stages(run.stage());
    if (stage.state() == v1::SWEEP_RUN_WAITING && *room > 0 &&
        (entry.search == nullptr ||
         entry.search->MayStart({true, run.stage()}))) {
      stage.set_state(v1::SWEEP_RUN_ACTIVE);
      entry.changed_stages.insert(run.stage());
      --*room;
    }
    if (stage.state() == v1::SWEEP_RUN_FAILED ||
        stage.state() == v1::SWEEP_RUN_STOPPED ||
        stage.state() == v1::SWEEP_RUN_CANCELLED) {
      const bool failed = stage.state() == v1::SWEEP_RUN_FAILED;
      return SettleRun(
          entry, index, stage.state(),
          absl::StrCat("the early stage ",
                       failed ? "failed: " : "ended: ", stage.reason()));
    }
    if (stage.state() != v1::SWEEP_RUN_SUCCEEDED) return;
  }
  if (*room <= 0) return;
  if (entry.search != nullptr && !entry.search->MayStart({false, index})) {
    return;
  }
  run.set_state(v1::SWEEP_RUN_ACTIVE);
  entry.changed_runs.insert(index);
  --*room;
}

int SweepEngine::Room(const Entry& entry) {
  const v1::Sweep& sweep = entry.sweep();
  int room = sweep.spec().max_parallel() > 0 ? sweep.spec().max_parallel()
                                             : std::numeric_limits<int>::max();
  // A search's paused jobs leave their place to others.
  const auto is_out = [&](v1::SweepRunState state, v1::JobState job) {
    return state == v1::SWEEP_RUN_ACTIVE &&
           !(entry.search != nullptr && job == v1::PAUSED);
  };
  for (const v1::SweepRun& run : sweep.runs()) {
    room -= is_out(run.state(), run.job_state()) ? 1 : 0;
  }
  for (const v1::SweepStage& stage : sweep.stages()) {
    room -= is_out(stage.state(), stage.job_state()) ? 1 : 0;
  }
  return room;
}

void SweepEngine::Advance(Entry& entry, absl::Time now, SweepEffects* effects) {
  v1::Sweep& sweep = entry.sweep();
  if (IsFinal(sweep.state())) return;
  if (sweep.state() == v1::Sweep::CANCELLING) {
    for (int i = 0; i < sweep.runs_size(); ++i) {
      if (sweep.runs(i).state() != v1::SWEEP_RUN_WAITING) continue;
      SettleRun(entry, i, v1::SWEEP_RUN_CANCELLED, sweep.reason());
    }
    for (v1::SweepStage& stage : *sweep.mutable_stages()) {
      if (stage.state() != v1::SWEEP_RUN_WAITING) continue;
      stage.set_state(v1::SWEEP_RUN_CANCELLED);
      entry.changed_stages.insert(stage.index());
    }
  } else {
    int room = Room(entry);
    if (entry.search != nullptr) SteerSearch(entry, &room, effects);
    for (int i = 0; i < sweep.runs_size(); ++i) {
      if (sweep.runs(i).state() == v1::SWEEP_RUN_WAITING) {
        StartRun(entry, i, &room, now, effects);
      }
    }
  }
  for (const v1::SweepStage& stage : sweep.stages()) {
    if (stage.state() == v1::SWEEP_RUN_ACTIVE && stage.job().empty()) {
      RequestJob(entry, {sweep.name(), true, stage.index()}, now, effects);
    }
  }
  for (const v1::SweepRun& run : sweep.runs()) {
    if (run.state() == v1::SWEEP_RUN_ACTIVE && run.job().empty()) {
      RequestJob(entry, {sweep.name(), false, run.index()}, now, effects);
    }
  }
  CancelJobs(entry, effects);
  EndIfDone(entry, now, effects);
}

void SweepEngine::CancelJobs(Entry& entry, SweepEffects* effects) {
  const v1::Sweep& sweep = entry.sweep();
  const bool all = sweep.state() == v1::Sweep::CANCELLING;
  const auto cancel = [&](v1::SweepRunState state, const std::string& job,
                          const std::string& reason) {
    if (state != v1::SWEEP_RUN_ACTIVE || job.empty() || reason.empty() ||
        !entry.cancelled.insert(job).second) {
      return;
    }
    effects->cancel.push_back({job, reason});
  };
  for (int i = 0; i < sweep.runs_size(); ++i) {
    cancel(sweep.runs(i).state(), sweep.runs(i).job(),
           all ? absl::StrCat("its sweep was ", sweep.reason())
               : entry.record.runs(i).dominated());
  }
  for (const v1::SweepStage& stage : sweep.stages()) {
    cancel(stage.state(), stage.job(),
           all ? absl::StrCat("its sweep was ", sweep.reason())
               : entry.record.stages(stage.index()).dominated());
  }
  for (const std::string& job : entry.record.search().abandoned()) {
    cancel(v1::SWEEP_RUN_ACTIVE, job, "started over with other steps");
  }
}

void SweepEngine::SettleRun(Entry& entry, int index, v1::SweepRunState state,
                            const std::string& reason) {
  v1::SweepRun& run = *entry.sweep().mutable_runs(index);
  run.set_state(state);
  run.set_reason(reason);
  entry.changed_runs.insert(index);
  entry.record.mutable_runs(index)->clear_validations();
}

void SweepEngine::EndIfDone(Entry& entry, absl::Time now,
                            SweepEffects* effects) {
  v1::Sweep& sweep = entry.sweep();
  bool done = true, targets = false, missed = false;
  int succeeded = 0, stopped = 0, failed = 0, cancelled = 0;
  for (const v1::SweepRun& run : sweep.runs()) {
    done = done && IsSettled(run.state());
    succeeded += run.state() == v1::SWEEP_RUN_SUCCEEDED ? 1 : 0;
    stopped += run.state() == v1::SWEEP_RUN_STOPPED ? 1 : 0;
    failed += run.state() == v1::SWEEP_RUN_FAILED ? 1 : 0;
    cancelled += run.state() == v1::SWEEP_RUN_CANCELLED ? 1 : 0;
    targets = targets || run.outcome() == v1::TARGET_MET ||
              run.outcome() == v1::TARGET_MISSED;
    missed = missed || run.outcome() == v1::TARGET_MISSED;
  }
  for (const v1::SweepStage& stage : sweep.stages()) {
    done = done && stage.state() != v1::SWEEP_RUN_ACTIVE;
  }
  if (!done) return;
  if (sweep.state() == v1::Sweep::CANCELLING) {
    sweep.set_state(v1::Sweep::CANCELLED);
  } else if (succeeded > 0) {
    sweep.set_state(v1::Sweep::SUCCEEDED);
    sweep.set_outcome(!targets ? v1::COMPLETED
                      : missed ? v1::TARGET_MISSED
                               : v1::TARGET_MET);
  } else {
    sweep.set_state(v1::Sweep::FAILED);
  }
  if (sweep.state() != v1::Sweep::CANCELLED) {
    sweep.set_reason(absl::StrCat(
        succeeded, " of ", sweep.runs_size(), " runs succeeded",
        failed > 0 ? absl::StrCat(", ", failed, " failed") : "",
        cancelled > 0 ? absl::StrCat(", ", cancelled, " were cancelled") : "",
        stopped > 0 ? absl::StrCat(", ", stopped, " were stopped as dominated")
                    : ""));
  }
  if (entry.search != nullptr && sweep.state() != v1::Sweep::CANCELLED) {
    ConcludeSearch(entry);
  }
  *sweep.mutable_end_time() = ToTimestamp(now);
  for (const v1::SweepRun& run : sweep.runs()) jobs_.erase(run.job());
  for (const v1::SweepStage& stage : sweep.stages()) jobs_.erase(stage.job());
  // The last figures come before the end.
  PublishChanges(entry, now, effects);
  v1::SweepEvent event;
  event.mutable_state_change()->set_state(sweep.state());
  event.mutable_state_change()->set_outcome(sweep.outcome());
  event.mutable_state_change()->set_reason(sweep.reason());
  AddEvent(entry, std::move(event), now, effects);
  DropPlan(entry);
}

void SweepEngine::DropPlan(Entry& entry) {
  // The search refers to the plan.
  entry.search.reset();
  entry.plan = SweepPlan();
}

void SweepEngine::ForgetOldSweeps(absl::Time now, SweepEffects* effects) {
  if (options_.keep_ended == absl::InfiniteDuration() || now < next_expiry_) {
    return;
  }
  next_expiry_ = now + options_.expiry_interval;
  std::vector<std::string> old;
  for (const auto& [name, entry] : sweeps_) {
    if (IsFinal(entry.sweep().state()) &&
        absl::FromUnixSeconds(entry.sweep().end_time().seconds()) +
                options_.keep_ended <
            now) {
      old.push_back(name);
    }
  }
  for (const std::string& name : old) Delete(name, effects).IgnoreError();
}

void SweepEngine::Tick(absl::Time now, SweepEffects* effects) {
  ForgetOldSweeps(now, effects);
  for (auto& [name, entry] : sweeps_) {
    if (IsFinal(entry.sweep().state())) continue;
    // Asks again for what was refused, or not answered before a restart.
    const size_t asked = effects->create.size() + effects->cancel.size();
    const int round = entry.sweep().search().round();
    Advance(entry, now, effects);
    if (effects->create.size() + effects->cancel.size() > asked ||
        entry.sweep().search().round() != round ||
        IsFinal(entry.sweep().state())) {
      Store(entry, now, effects);
      continue;
    }
    PublishChanges(entry, now, effects);
    if (entry.unsaved && now - entry.stored >= options_.store_interval) {
      Store(entry, now, effects);
    }
  }
}

SweepEngine::Entry* SweepEngine::FindEntry(const std::string& name) {
  const auto it = sweeps_.find(name);
  return it == sweeps_.end() ? nullptr : &it->second;
}

SweepChild* SweepEngine::RecordOf(Entry& entry, const SweepChildId& child) {
  return child.stage ? entry.record.mutable_stages(child.index)
                     : entry.record.mutable_runs(child.index);
}

}  // namespace comera::server
