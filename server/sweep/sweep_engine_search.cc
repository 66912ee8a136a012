// What the engine does for a sweep that searches: it carries out what the
// sweep's SweepSearch decides.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sweep/sweep_engine.h"

namespace comera::server {

void SweepEngine::SteerSearch(Entry& entry, int* room, SweepEffects* effects) {
  const SweepSearch::Decision decision = entry.search->Decide();
  for (const std::string& job : decision.pause) {
    if (entry.pausing.insert(job).second) effects->pause.push_back(job);
  }
  for (const std::string& job : decision.resume) {
    if (*room <= 0) break;
    --*room;
    if (entry.resuming.insert(job).second) effects->resume.push_back(job);
  }
  for (const SearchChild& child : decision.start_over) StartOver(entry, child);
  if (!decision.changed) return;
  entry.search_changed = true;
  entry.unsaved = true;
  SettleStopped(entry);
}

void SweepEngine::SettleStopped(Entry& entry) {
  v1::Sweep& sweep = entry.sweep();
  for (int i = 0; i < sweep.stages_size(); ++i) {
    const std::string& why = entry.record.stages(i).dominated();
    if (why.empty() || sweep.stages(i).state() != v1::SWEEP_RUN_WAITING) {
      continue;
    }
    sweep.mutable_stages(i)->set_state(v1::SWEEP_RUN_STOPPED);
    sweep.mutable_stages(i)->set_reason(why);
    entry.changed_stages.insert(i);
  }
  for (int i = 0; i < sweep.runs_size(); ++i) {
    const std::string why = entry.record.runs(i).dominated();
    if (why.empty() || sweep.runs(i).state() != v1::SWEEP_RUN_WAITING) {
      continue;
    }
    SettleRun(entry, i, v1::SWEEP_RUN_STOPPED, why);
  }
}

void SweepEngine::StartOver(Entry& entry, const SearchChild& child) {
  v1::Sweep& sweep = entry.sweep();
  const auto leave = [&](auto* run) {
    entry.record.mutable_search()->add_abandoned(run->job());
    jobs_.erase(run->job());
    run->clear_job();
    run->clear_job_state();
    run->clear_progress();
    run->clear_points();
    // It starts again as soon as there is room.
    run->set_state(v1::SWEEP_RUN_WAITING);
  };
  if (child.stage) {
    leave(sweep.mutable_stages(child.index));
    entry.changed_stages.insert(child.index);
  } else {
    leave(sweep.mutable_runs(child.index));
    entry.changed_runs.insert(child.index);
  }
  const SweepChildId id = {sweep.name(), child.stage, child.index};
  RecordOf(entry, id)->clear_job_sequence();
  entry.creating.erase(id);
  entry.front = ParetoFront(1024);
  RebuildFront(entry);
  UpdateFront(entry);
}

void SweepEngine::ConcludeSearch(Entry& entry) {
  v1::Sweep& sweep = entry.sweep();
  const std::optional<SearchChoice> choice = entry.search->Conclude();
  entry.search_changed = true;
  sweep.set_reason(sweep.search().explanation());
  if (!choice) {
    sweep.set_state(v1::Sweep::FAILED);
    sweep.clear_outcome();
    return;
  }
  sweep.set_outcome(choice->met ? v1::TARGET_MET : v1::TARGET_MISSED);
}

}  // namespace comera::server
