// Stops the candidates of a search that cannot become its result any more.
#include "server/sweep/search_stops.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/sweep/search_words.h"

namespace comera::server {
namespace {

bool GoesOn(const SweepRecord& record, int run) {
  return !IsOver(record.sweep().runs(run).state()) &&
         record.runs(run).dominated().empty();
}

// The smallest run that has met the targets; -1: none has.
int SmallestMet(const SearchLedger& ledger, const SweepRecord& record) {
  int smallest = -1;
  for (const v1::SweepRun& run : record.sweep().runs()) {
    const SweepChild& child = record.runs(run.index());
    if (run.state() != v1::SWEEP_RUN_SUCCEEDED || !child.has_result()) continue;
    const QualitySample& result = child.result();
    if (!result.meets_quality() ||
        !ledger.target().MeetsSize(result.size_parameters())) {
      continue;
    }
    if (smallest < 0 || result.size_parameters() <
                            record.runs(smallest).result().size_parameters()) {
      smallest = run.index();
    }
  }
  return smallest;
}

// Whether a run has the size that its specification told. A vocabulary that is
// trained on little data may be smaller than planned, and the models with it.
bool PlansHold(const SearchLedger& ledger, const SweepRecord& record) {
  for (int run = 0; run < record.runs_size(); ++run) {
    const int64_t planned = ledger.PlannedSize(run);
    if (planned > 0 && planned == ledger.ExpectedSize(run)) return true;
  }
  return false;
}

}  // namespace

bool StopTooLarge(const SearchLedger& ledger, SweepRecord* record) {
  bool stopped = false;
  for (int run = 0; run < record->runs_size(); ++run) {
    if (!GoesOn(*record, run)) continue;
    const int64_t expected = ledger.ExpectedSize(run);
    if (expected == 0 || ledger.target().MeetsSize(expected)) continue;
    record->mutable_runs(run)->set_dominated(
        absl::StrCat("stopped: it has ", SizeWords(expected),
                     " parameters, more than the target of ",
                     SizeWords(ledger.target().parameters)));
    stopped = true;
  }
  return stopped;
}

bool StopLarger(const SearchLedger& ledger, const SweepPlan& plan,
                SweepRecord* record) {
  if (!ledger.target().has_quality) return false;
  const int smallest = SmallestMet(ledger, *record);
  if (smallest < 0) return false;
  const int64_t size = record->runs(smallest).result().size_parameters();
  const bool plans_hold = PlansHold(ledger, *record);
  bool stopped = false;
  for (int run = 0; run < record->runs_size(); ++run) {
    if (!GoesOn(*record, run)) continue;
    int64_t expected = ledger.ExpectedSize(run);
    if (expected == 0 && plans_hold) expected = ledger.PlannedSize(run);
    if (expected == 0 || expected < size) continue;
    record->mutable_runs(run)->set_dominated(
        absl::StrCat("stopped: ", CandidateWords(plan.runs[smallest].label),
                     " met the target with ", SizeWords(size),
                     " parameters, this one would have ", SizeWords(expected)));
    stopped = true;
  }
  return stopped;
}

bool StopMoreShrunk(const SearchLedger& ledger, const SweepPlan& plan,
                    SweepRecord* record) {
  if (!ledger.target().has_quality) return false;
  bool stopped = false;
  for (const SweepPlan::Stage& stage : plan.stages) {
    // The smallest of its runs that has missed.
    int missed = -1;
    for (int run : stage.runs) {
      const SweepChild& child = record->runs(run);
      if (record->sweep().runs(run).state() != v1::SWEEP_RUN_SUCCEEDED ||
          !child.has_result() || child.result().meets_quality()) {
        continue;
      }
      if (missed < 0 || child.result().size_parameters() <
                            record->runs(missed).result().size_parameters()) {
        missed = run;
      }
    }
    if (missed < 0) continue;
    const QualitySample& result = record->runs(missed).result();
    for (int run : stage.runs) {
      const int64_t expected = ledger.ExpectedSize(run);
      if (!GoesOn(*record, run) || expected == 0 ||
          expected > result.size_parameters()) {
        continue;
      }
      record->mutable_runs(run)->set_dominated(absl::StrCat(
          "stopped: ", CandidateWords(plan.runs[missed].label),
          ", which shrinks the same model less, missed the target at ",
          ledger.target().Name(), " ", FigureWords(result.quality())));
      stopped = true;
    }
  }
  return stopped;
}

bool HasMet(const SearchLedger& ledger, const SweepRecord& record) {
  return SmallestMet(ledger, record) >= 0;
}

void StopIdleStages(const SweepPlan& plan, SweepRecord* record) {
  for (const v1::SweepStage& stage : record->sweep().stages()) {
    SweepChild& child = *record->mutable_stages(stage.index());
    if (IsOver(stage.state()) || !child.dominated().empty()) continue;
    const std::vector<int>& runs = plan.stages[stage.index()].runs;
    const bool idle = std::none_of(runs.begin(), runs.end(), [&](int run) {
      return GoesOn(*record, run);
    });
    if (idle) child.set_dominated(record->runs(runs.front()).dominated());
  }
}

}  // namespace comera::server
