// What jobs report, and what readers are told.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/job_state.h"
#include "server/rpc/proto_time.h"
#include "server/sweep/halving_rule.h"
#include "server/sweep/sweep_engine.h"

namespace comera::server {
namespace {

// How many points of one run are kept.
constexpr size_t kMaxRunPoints = 64;

// `points` with one more. False: it is covered already.
bool AddPoint(const v1::ParetoPoint& point,
              google::protobuf::RepeatedPtrField<v1::ParetoPoint>* points) {
  ParetoFront front(kMaxRunPoints);
  for (const v1::ParetoPoint& known : *points) {
    v1::FrontPoint entry;
    *entry.mutable_point() = known;
    front.Add(std::move(entry));
  }
  v1::FrontPoint added;
  *added.mutable_point() = point;
  if (!front.Add(std::move(added))) return false;
  points->Clear();
  for (const v1::FrontPoint& entry : front.points()) {
    *points->Add() = entry.point();
  }
  return true;
}

v1::FrontPoint MakeFrontPoint(const v1::ParetoPoint& point,
                              const std::string& job, int run) {
  v1::FrontPoint result;
  *result.mutable_point() = point;
  result.set_job(job);
  result.set_run(run);
  return result;
}

v1::SweepRunState SettledState(const v1::Job& job, bool dominated) {
  switch (job.state()) {
    case v1::SUCCEEDED:
      return v1::SWEEP_RUN_SUCCEEDED;
    case v1::CANCELLED:
      return dominated ? v1::SWEEP_RUN_STOPPED : v1::SWEEP_RUN_CANCELLED;
    default:
      return v1::SWEEP_RUN_FAILED;
  }
}

}  // namespace

std::optional<int64_t> SweepEngine::JobSequence(const std::string& job) const {
  const auto child = jobs_.find(job);
  if (child == jobs_.end()) return std::nullopt;
  return RecordOf(
             const_cast<SweepEngine*>(this)->sweeps_.at(child->second.sweep),
             child->second)
      ->job_sequence();
}

std::vector<std::string> SweepEngine::Jobs() const {
  std::vector<std::string> names;
  for (const auto& [name, child] : jobs_) names.push_back(name);
  return names;
}

void SweepEngine::ApplyEvent(const v1::JobEvent& event, const v1::Job& job,
                             absl::Time now, SweepEffects* effects) {
  const auto found = jobs_.find(event.job());
  if (found == jobs_.end()) return;
  const SweepChildId child = found->second;
  Entry& entry = sweeps_.at(child.sweep);
  SweepChild& record = *RecordOf(entry, child);
  if (event.sequence() <= record.job_sequence()) return;
  record.set_job_sequence(event.sequence());
  entry.unsaved = true;
  switch (event.event_case()) {
    case v1::JobEvent::kRunInfo: {
      if (entry.sweep().front().has_reference()) break;
      const v1::RunInfo& info = event.run_info();
      if (info.baseline_loss() <= 0 || info.dense_parameters() <= 0) break;
      v1::ReferencePoint* reference =
          entry.sweep().mutable_front()->mutable_reference();
      reference->set_validation_loss(info.baseline_loss());
      reference->set_size_parameters(info.dense_parameters());
      UpdateFront(entry);
      break;
    }
    case v1::JobEvent::kMetrics:
      ApplyJob(entry, child, job, /*complete=*/false);
      if (event.metrics().has_validation_loss()) {
        ApplyValidation(entry, child, event.metrics());
      }
      if (entry.search != nullptr) {
        entry.search->OnMetrics({child.stage, child.index}, event.metrics(),
                                FromTimestamp(event.time()), event.attempt());
        entry.search_changed = true;
      }
      break;
    case v1::JobEvent::kParetoPoint:
      ApplyPoint(entry, child, event.pareto_point());
      break;
    case v1::JobEvent::kResult:
      for (const v1::ParetoPoint& point : event.result().pareto_front()) {
        ApplyPoint(entry, child, point);
      }
      if (entry.search != nullptr) {
        entry.search->OnResult({child.stage, child.index}, event.result());
      }
      break;
    default:
      break;
  }
  const bool dominated =
      !record.dominated().empty() && entry.cancelled.count(job.name()) == 0;
  const bool is_due = entry.search != nullptr && event.has_metrics() &&
                      entry.pausing.count(job.name()) == 0 &&
                      entry.search->IsDue({child.stage, child.index});
  if (!event.has_state_change() && !dominated && !is_due) return;
  if (event.has_state_change()) {
    ApplyJob(entry, child, job,
             /*complete=*/comera::IsFinal(event.state_change().state()));
  }
  Advance(entry, now, effects);
  Store(entry, now, effects);
}

void SweepEngine::CaughtUp(const std::string& name, const v1::Job* job,
                           int64_t sequence, absl::Time now,
                           SweepEffects* effects) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  const SweepChildId child = found->second;
  Entry& entry = sweeps_.at(child.sweep);
  SweepChild& record = *RecordOf(entry, child);
  record.set_job_sequence(std::max(record.job_sequence(), sequence));
  v1::Job gone;
  if (job == nullptr) {
    gone.set_name(name);
    gone.set_state(v1::FAILED);
    gone.set_reason("its job is no longer kept");
    job = &gone;
  }
  ApplyJob(entry, child, *job, /*complete=*/true);
  Advance(entry, now, effects);
  Store(entry, now, effects);
}

void SweepEngine::ApplyJob(Entry& entry, const SweepChildId& child,
                           const v1::Job& job, bool complete) {
  entry.unsaved = true;
  if (job.state() == v1::PAUSED) {
    entry.pausing.erase(job.name());
  } else {
    entry.resuming.erase(job.name());
  }
  if (child.stage) {
    v1::SweepStage& stage = *entry.sweep().mutable_stages(child.index);
    stage.set_job_state(job.state());
    *stage.mutable_progress() = job.progress();
    entry.changed_stages.insert(child.index);
  } else {
    v1::SweepRun& run = *entry.sweep().mutable_runs(child.index);
    run.set_job_state(job.state());
    run.set_outcome(job.outcome());
    if (entry.search != nullptr && job.outcome() == v1::TARGET_MISSED &&
        !SearchTargetOf(entry.sweep().spec().job().objective().late())
             .has_quality) {
      // The loss that it was given is one that nothing reaches.
      run.set_outcome(v1::COMPLETED);
    }
    *run.mutable_progress() = job.progress();
    entry.changed_runs.insert(child.index);
  }
  if (complete && comera::IsFinal(job.state())) {
    ApplyFinalState(entry, child, job);
  }
}

void SweepEngine::ApplyFinalState(Entry& entry, const SweepChildId& child,
                                  const v1::Job& job) {
  const std::string& dominated = RecordOf(entry, child)->dominated();
  const v1::SweepRunState state = SettledState(job, !dominated.empty());
  if (!child.stage) {
    if (IsSettled(entry.sweep().runs(child.index).state())) return;
    if (state == v1::SWEEP_RUN_SUCCEEDED && entry.search != nullptr) {
      return SettleRun(entry, child.index, state,
                       entry.search->WordsOf(child.index));
    }
    return SettleRun(entry, child.index, state,
                     state == v1::SWEEP_RUN_STOPPED ? dominated : job.reason());
  }
  v1::SweepStage& stage = *entry.sweep().mutable_stages(child.index);
  stage.set_state(state);
  stage.set_reason(job.reason());
  if (state != v1::SWEEP_RUN_SUCCEEDED) return;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    if (checkpoint.has_file()) stage.set_checkpoint(checkpoint.name());
  }
  if (!stage.checkpoint().empty()) return;
  stage.set_state(v1::SWEEP_RUN_FAILED);
  stage.set_reason("it left no checkpoint");
}

void SweepEngine::ApplyPoint(Entry& entry, const SweepChildId& child,
                             const v1::ParetoPoint& point) {
  std::string job;
  if (child.stage) {
    v1::SweepStage& stage = *entry.sweep().mutable_stages(child.index);
    if (!AddPoint(point, stage.mutable_points())) return;
    entry.changed_stages.insert(child.index);
    job = stage.job();
  } else {
    v1::SweepRun& run = *entry.sweep().mutable_runs(child.index);
    if (!AddPoint(point, run.mutable_points())) return;
    entry.changed_runs.insert(child.index);
    job = run.job();
  }
  if (entry.front.Add(
          MakeFrontPoint(point, job, child.stage ? -1 : child.index))) {
    UpdateFront(entry);
  }
}

void SweepEngine::ApplyValidation(Entry& entry, const SweepChildId& child,
                                  const v1::StepMetrics& metrics) {
  if (child.stage) return;
  if (entry.sweep().spec().has_halving()) {
    CheckHalving(entry, child.index, metrics);
  }
  if (!entry.sweep().spec().stop_dominated()) return;
  SweepChild& record = *entry.record.mutable_runs(child.index);
  ValidationSample* sample = record.add_validations();
  sample->set_step(metrics.step());
  sample->set_loss(metrics.validation_loss());
  sample->set_size_parameters(metrics.size_parameters());
  if (record.validations_size() > kDominanceHistory) {
    record.mutable_validations()->DeleteSubrange(0, 1);
  }
  CheckDominance(entry, child.index);
}

void SweepEngine::CheckHalving(Entry& entry, int index,
                               const v1::StepMetrics& metrics) {
  SweepChild& record = *entry.record.mutable_runs(index);
  const v1::SuccessiveHalving& halving = entry.sweep().spec().halving();
  const std::optional<double> value = HalvingValue(halving.metric(), metrics);
  if (!record.dominated().empty() || !value) return;
  // A run that is at its end has nothing left to save.
  const bool at_end =
      (metrics.total_steps() > 0 && metrics.step() >= metrics.total_steps()) ||
      (metrics.target_size_parameters() > 0 &&
       metrics.size_parameters() <= metrics.target_size_parameters() &&
       metrics.validation_loss() <= metrics.target_loss());
  const int reached = RungsReached(halving, metrics.step());
  while (record.rungs_size() < reached) {
    const int rung = record.rungs_size();
    std::vector<double> others;
    for (const SweepChild& other : entry.record.runs()) {
      if (other.rungs_size() > rung) others.push_back(other.rungs(rung));
    }
    record.add_rungs(*value);
    std::string why;
    if (!at_end && IsBehind(halving, rung, *value, others, &why)) {
      record.set_dominated(why);
      return;
    }
  }
}

void SweepEngine::CheckDominance(Entry& entry, int index) {
  SweepChild& record = *entry.record.mutable_runs(index);
  if (!record.dominated().empty()) return;
  const v1::SweepRun& run = entry.sweep().runs(index);
  DominanceSubject subject;
  subject.step = run.progress().step();
  subject.total_steps = run.progress().total_steps();
  const SweepPlan::Run& planned = entry.plan.runs[index];
  subject.final_size = planned.method == v1::CompressionSpec::COMERA
                           ? run.progress().target_size_parameters()
                           : run.progress().size_parameters();
  // A list of targets is approached again and again from the start.
  if (planned.late_targets > 1) return;
  subject.validations.assign(record.validations().begin(),
                             record.validations().end());
  subject.points.assign(run.points().begin(), run.points().end());
  std::vector<v1::FrontPoint> others;
  for (const v1::SweepRun& other : entry.sweep().runs()) {
    if (other.index() == index) continue;
    for (const v1::ParetoPoint& point : other.points()) {
      others.push_back(MakeFrontPoint(point, other.job(), other.index()));
    }
  }
  DominanceOptions options = options_.dominance;
  options.margin = entry.sweep().spec().dominance_margin();
  std::string why;
  if (!IsHopeless(subject, others, options, &why)) {
    record.set_strikes(0);
    return;
  }
  record.set_strikes(record.strikes() + 1);
  if (record.strikes() >= options.strikes) record.set_dominated(why);
}

void SweepEngine::RebuildFront(Entry& entry) {
  for (const v1::SweepStage& stage : entry.sweep().stages()) {
    for (const v1::ParetoPoint& point : stage.points()) {
      entry.front.Add(MakeFrontPoint(point, stage.job(), -1));
    }
  }
  for (const v1::SweepRun& run : entry.sweep().runs()) {
    for (const v1::ParetoPoint& point : run.points()) {
      entry.front.Add(MakeFrontPoint(point, run.job(), run.index()));
    }
  }
}

void SweepEngine::UpdateFront(Entry& entry) {
  v1::Sweep& sweep = entry.sweep();
  const v1::ReferencePoint reference = sweep.spec().has_reference()
                                           ? sweep.spec().reference()
                                           : sweep.front().reference();
  *sweep.mutable_front() = MakeSweepFront(entry.front, reference);
  entry.front_changed = true;
  entry.unsaved = true;
}

void SweepEngine::UpdateCounts(Entry& entry) {
  v1::SweepCounts& counts = *entry.sweep().mutable_counts();
  counts.Clear();
  counts.set_runs(entry.sweep().runs_size());
  for (const v1::SweepRun& run : entry.sweep().runs()) {
    switch (run.state()) {
      case v1::SWEEP_RUN_ACTIVE:
        counts.set_active(counts.active() + 1);
        break;
      case v1::SWEEP_RUN_SUCCEEDED:
        counts.set_succeeded(counts.succeeded() + 1);
        break;
      case v1::SWEEP_RUN_FAILED:
        counts.set_failed(counts.failed() + 1);
        break;
      case v1::SWEEP_RUN_CANCELLED:
        counts.set_cancelled(counts.cancelled() + 1);
        break;
      case v1::SWEEP_RUN_STOPPED:
        counts.set_stopped(counts.stopped() + 1);
        break;
      default:
        counts.set_waiting(counts.waiting() + 1);
    }
  }
}

void SweepEngine::AddEvent(Entry& entry, v1::SweepEvent event, absl::Time now,
                           SweepEffects* effects) {
  entry.record.set_last_sequence(entry.record.last_sequence() + 1);
  event.set_sequence(entry.record.last_sequence());
  *event.mutable_time() = ToTimestamp(now);
  entry.events.push_back(std::move(event));
  if (entry.events.size() > options_.kept_events) entry.events.pop_front();
  effects->wake.insert(entry.sweep().name());
}

void SweepEngine::PublishChanges(Entry& entry, absl::Time now,
                                 SweepEffects* effects) {
  UpdateCounts(entry);
  for (int index : entry.changed_stages) {
    v1::SweepEvent event;
    *event.mutable_stage() = entry.sweep().stages(index);
    AddEvent(entry, std::move(event), now, effects);
  }
  for (int index : entry.changed_runs) {
    v1::SweepEvent event;
    *event.mutable_run() = entry.sweep().runs(index);
    AddEvent(entry, std::move(event), now, effects);
  }
  if (entry.front_changed) {
    v1::SweepEvent event;
    *event.mutable_front() = entry.sweep().front();
    AddEvent(entry, std::move(event), now, effects);
  }
  if (entry.search_changed) {
    v1::SweepEvent event;
    *event.mutable_search() = entry.sweep().search();
    AddEvent(entry, std::move(event), now, effects);
  }
  entry.changed_runs.clear();
  entry.changed_stages.clear();
  entry.front_changed = false;
  entry.search_changed = false;
}

void SweepEngine::Store(Entry& entry, absl::Time now, SweepEffects* effects) {
  PublishChanges(entry, now, effects);
  entry.record.set_revision(entry.record.revision() + 1);
  entry.sweep().set_etag(absl::StrCat(entry.record.revision()));
  entry.stored = now;
  entry.unsaved = false;
  effects->records[entry.sweep().name()] = entry.record;
}

const v1::Sweep* SweepEngine::Find(const std::string& name) const {
  const auto it = sweeps_.find(name);
  return it == sweeps_.end() ? nullptr : &it->second.sweep();
}

int64_t SweepEngine::LastSequence(const std::string& name) const {
  const auto it = sweeps_.find(name);
  return it == sweeps_.end() ? 0 : it->second.record.last_sequence();
}

std::optional<std::vector<v1::SweepEvent>> SweepEngine::EventsAfter(
    const std::string& name, int64_t sequence) const {
  std::vector<v1::SweepEvent> events;
  const auto it = sweeps_.find(name);
  if (it == sweeps_.end()) return events;
  const Entry& entry = it->second;
  if (sequence >= entry.record.last_sequence()) return events;
  if (entry.events.empty() || entry.events.front().sequence() > sequence + 1) {
    return std::nullopt;
  }
  for (const v1::SweepEvent& event : entry.events) {
    if (event.sequence() > sequence) events.push_back(event);
  }
  return events;
}

}  // namespace comera::server
