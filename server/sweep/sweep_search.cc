// Steers the runs of a search from round to round.
#include "server/sweep/sweep_search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/search_portfolio.h"
#include "server/rpc/proto_time.h"
#include "server/sweep/search_words.h"

namespace comera::server {
namespace {

constexpr int kKeptQualities = 32;
// A candidate without any validation may overdraw its allowance so often.
constexpr double kOverdraft = 3;
// A plan may be off by so much before a run is started over for it.
constexpr double kLeastFit = 0.75;
constexpr double kMostFit = 1.5;
// The share of the budget of one or two candidates that measures their speed.
constexpr double kMeasuringShare = 0.2;
// Shorter runs teach nothing.
constexpr double kLeastSteps = 20;

bool IsOver(v1::SweepRunState state) {
  return state != v1::SWEEP_RUN_WAITING && state != v1::SWEEP_RUN_ACTIVE;
}

// Drops every second validation but the newest, so that the early ones, from
// which the gain of the last half is taken, stay.
void Thin(SweepChild* record) {
  auto& samples = *record->mutable_qualities();
  int kept = 0;
  for (int i = 0; i < samples.size(); ++i) {
    if (i % 2 == 0 || i + 1 == samples.size()) {
      samples.SwapElements(i, kept++);
    }
  }
  samples.DeleteSubrange(kept, samples.size() - kept);
}

double BudgetOf(const v1::Budget& budget) {
  switch (budget.limit_case()) {
    case v1::Budget::kTime:
      return absl::ToDoubleSeconds(FromProtoDuration(budget.time()));
    case v1::Budget::kProcessorTime:
      return absl::ToDoubleSeconds(FromProtoDuration(budget.processor_time()));
    case v1::Budget::kSteps:
      return static_cast<double>(budget.steps());
    case v1::Budget::LIMIT_NOT_SET:
      break;
  }
  return 0;
}

}  // namespace

SweepSearch::SweepSearch(SweepRecord* record, const SweepPlan* plan)
    : record_(record),
      plan_(plan),
      target_(SearchTargetOf(record->sweep().spec().job().objective().late())) {
}

void SweepSearch::Begin(int parallel) {
  search().set_parallel(std::max(1, parallel));
  const double budget = BudgetOf(sweep().spec().job().budget());
  const int entrants = CountEntrants(*plan_);
  const SearchRounds rounds = PlanSearchRounds(entrants, budget, Parallel());
  state().set_round(1);
  state().set_rounds(rounds.rounds);
  state().set_budget(budget);
  search().set_allowance(rounds.rounds > 1 ? rounds.first : 0);
  // Too few to stop any: the first round only measures.
  if (rounds.rounds == 1 && IsMeasuring()) {
    state().set_rounds(2);
    search().set_allowance(kMeasuringShare * rounds.first);
  }
}

SweepChild& SweepSearch::Of(const SearchChild& child) {
  return child.stage ? *record_->mutable_stages(child.index)
                     : *record_->mutable_runs(child.index);
}

const SweepChild& SweepSearch::Of(const SearchChild& child) const {
  return child.stage ? record_->stages(child.index)
                     : record_->runs(child.index);
}

bool SweepSearch::InTime() const {
  return !sweep().spec().job().budget().has_steps();
}

int SweepSearch::Parallel() const {
  return sweep().spec().job().budget().has_time()
             ? std::max(1, search().parallel())
             : 1;
}

double SweepSearch::BudgetSpent() const {
  const double all = TotalSpent() / Parallel();
  return Parallel() == 1
             ? all
             : std::max(all, search().rounds_spent() + RoundSpent());
}

double SweepSearch::RoundSpent() const {
  const std::vector<SearchChild> live = Live();
  if (live.empty()) return 0;
  double sum = 0, most = 0;
  for (const SearchChild& child : live) {
    const double spent =
        std::max(0.0, SpentFor(child) - search().round_begin());
    sum += spent;
    most = std::max(most, spent);
  }
  return std::max(most,
                  sum / std::min(Parallel(), static_cast<int>(live.size())));
}

double SweepSearch::TotalSpent() const {
  double spent = 0;
  for (const SweepChild& run : record_->runs()) {
    spent += run.spent() + run.spent_before();
  }
  for (const SweepChild& stage : record_->stages()) {
    spent += stage.spent() + stage.spent_before();
  }
  return spent;
}

double SweepSearch::SpentFor(const SearchChild& child) const {
  double spent = Of(child).spent();
  if (!child.stage && sweep().runs(child.index).stage() >= 0) {
    spent += record_->stages(sweep().runs(child.index).stage()).spent();
  }
  return spent;
}

const google::protobuf::RepeatedPtrField<QualitySample>&
SweepSearch::QualitiesOf(const SearchChild& child) const {
  const SweepChild& own = Of(child);
  if (child.stage || own.qualities_size() > 0) return own.qualities();
  const int stage = sweep().runs(child.index).stage();
  return stage < 0 ? own.qualities() : record_->stages(stage).qualities();
}

double SweepSearch::QualityOf(const v1::StepMetrics& metrics,
                              bool* known) const {
  switch (target_.metric) {
    case v1::LateStage::kTargetAccuracy:
      *known = metrics.has_validation_accuracy();
      return metrics.validation_accuracy();
    case v1::LateStage::kTargetF1:
      *known = metrics.has_validation_f1();
      return metrics.validation_f1();
    case v1::LateStage::kTargetMcc:
      *known = metrics.has_validation_mcc();
      return metrics.validation_mcc();
    case v1::LateStage::kTargetAuc:
      *known = metrics.has_validation_auc();
      return metrics.validation_auc();
    case v1::LateStage::kTargetPerplexity:
      *known = metrics.has_validation_loss();
      return std::exp(metrics.validation_loss());
    default:
      *known = metrics.has_validation_loss();
      return metrics.validation_loss();
  }
}

double SweepSearch::QualityOf(const v1::TrainingResult& result) const {
  switch (target_.metric) {
    case v1::LateStage::kTargetAccuracy:
      return result.validation_accuracy();
    case v1::LateStage::kTargetF1:
      return result.validation_f1();
    case v1::LateStage::kTargetMcc:
      return result.validation_mcc();
    case v1::LateStage::kTargetAuc:
      return result.validation_auc();
    case v1::LateStage::kTargetPerplexity:
      return std::exp(result.validation_loss());
    default:
      return result.validation_loss();
  }
}

void SweepSearch::OnMetrics(const SearchChild& child,
                            const v1::StepMetrics& metrics, absl::Time time,
                            int64_t attempt) {
  SweepChild& record = Of(child);
  if (InTime()) {
    const int64_t micros = absl::ToUnixMicros(time);
    if (record.counted_attempt() == attempt && record.counted_micros() > 0) {
      const v1::JobSpec& job = sweep().spec().job();
      const double processes = job.budget().has_processor_time()
                                   ? std::max(1, job.resources().processes())
                                   : 1;
      record.set_spent(record.spent() +
                       processes * 1e-6 *
                           static_cast<double>(std::max<int64_t>(
                               0, micros - record.counted_micros())));
    }
    record.set_counted_micros(micros);
    record.set_counted_attempt(attempt);
  } else {
    // A run that continues an early stage counts its steps from there.
    const int64_t before =
        child.stage || sweep().runs(child.index).stage() < 0
            ? 0
            : plan_->runs[child.index].spec.objective().early().steps();
    record.set_spent(
        std::max(record.spent(), static_cast<double>(metrics.step() - before)));
  }
  state().set_spent(BudgetSpent());
  if (!child.stage) {
    record_->mutable_sweep()
        ->mutable_runs(child.index)
        ->set_spent(SpentFor(child) + record.spent_before());
  }
  bool known = false;
  const double quality = QualityOf(metrics, &known);
  if (!known) return;
  QualitySample* sample = record.add_qualities();
  sample->set_spent(SpentFor(child));
  sample->set_loss(metrics.validation_loss());
  sample->set_quality(quality);
  sample->set_size_parameters(metrics.size_parameters());
  if (record.qualities_size() > kKeptQualities) Thin(&record);
  if (child.stage) return;
  v1::SweepRun* run = record_->mutable_sweep()->mutable_runs(child.index);
  run->set_quality(Describe(child, 0).quality);
}

void SweepSearch::OnResult(const SearchChild& child,
                           const v1::TrainingResult& result) {
  QualitySample* sample = Of(child).mutable_result();
  sample->set_spent(SpentFor(child));
  sample->set_loss(result.validation_loss());
  sample->set_quality(QualityOf(result));
  sample->set_size_parameters(result.size_parameters());
  sample->set_meets_quality(
      sweep().spec().job().objective().late().confidence() > 0
          ? result.outcome() == v1::TARGET_MET
          : target_.MeetsQuality(sample->quality()));
  if (child.stage) return;
  record_->mutable_sweep()
      ->mutable_runs(child.index)
      ->set_quality(sample->quality());
}

int64_t SweepSearch::ExpectedSize(int run) const {
  const SearchChild child{false, run};
  const SweepChild& record = Of(child);
  if (record.has_result()) return record.result().size_parameters();
  const auto& samples = QualitiesOf(child);
  if (samples.empty()) return 0;
  const int64_t now = samples.rbegin()->size_parameters();
  const v1::JobSpec& spec = plan_->runs[run].spec;
  if (spec.compression().method() != v1::CompressionSpec::COMERA) return now;
  const v1::LateStage& late = spec.objective().late();
  const SearchTarget own = SearchTargetOf(late);
  if (own.parameters > 0) return std::min(now, own.parameters);
  // The share is one of the size at the start of the late stage.
  const int stage = sweep().runs(run).stage();
  const auto& early =
      stage >= 0 ? record_->stages(stage).qualities() : record.qualities();
  int64_t whole = now;
  for (const QualitySample& sample : early) {
    whole = std::max(whole, sample.size_parameters());
  }
  const double shrunk = late.target_ratio() * static_cast<double>(whole);
  return std::min(now, static_cast<int64_t>(shrunk));
}

std::vector<SearchChild> SweepSearch::Live() const {
  std::vector<SearchChild> live;
  for (const v1::SweepStage& stage : sweep().stages()) {
    if (!IsOver(stage.state()) &&
        record_->stages(stage.index()).dominated().empty()) {
      live.push_back({true, stage.index()});
    }
  }
  for (const v1::SweepRun& run : sweep().runs()) {
    if (IsOver(run.state()) ||
        !record_->runs(run.index()).dominated().empty()) {
      continue;
    }
    if (run.stage() >= 0 &&
        sweep().stages(run.stage()).state() != v1::SWEEP_RUN_SUCCEEDED) {
      continue;
    }
    live.push_back({false, run.index()});
  }
  return live;
}

bool SweepSearch::HasRested(const SearchChild& child) const {
  const bool spent = SpentFor(child) >= search().allowance();
  if (child.stage) {
    return spent && sweep().stages(child.index).job_state() == v1::PAUSED;
  }
  const v1::SweepRun& run = sweep().runs(child.index);
  if (run.state() == v1::SWEEP_RUN_WAITING) return spent && run.stage() >= 0;
  return spent && run.job_state() == v1::PAUSED;
}

bool SweepSearch::AllHaveRested(const std::vector<SearchChild>& live) const {
  return std::all_of(live.begin(), live.end(), [&](const SearchChild& child) {
    return HasRested(child);
  });
}

SearchEntrant SweepSearch::Describe(const SearchChild& child, int id) const {
  SearchEntrant entrant;
  entrant.id = id;
  int64_t size = 0;
  if (child.stage) {
    // Its loss is nearest to that of its largest run which is small enough.
    int largest = -1;
    for (int run : plan_->stages[child.index].runs) {
      if (IsOver(sweep().runs(run).state())) continue;
      const int64_t expected = ExpectedSize(run);
      if (largest >= 0 && (expected <= size || !target_.MeetsSize(expected))) {
        continue;
      }
      largest = run;
      size = expected;
    }
    entrant.name = CandidateWords(plan_->runs[std::max(largest, 0)].label);
  } else {
    size = ExpectedSize(child.index);
    entrant.name = CandidateWords(plan_->runs[child.index].label);
  }
  const auto& samples = QualitiesOf(child);
  if (samples.empty()) return entrant;
  entrant.measured = true;
  entrant.size = size;
  entrant.present = samples.rbegin()->size_parameters();
  // At its present size: what was reached with more parameters is gone.
  const double half = samples.rbegin()->spent() / 2;
  std::optional<double> now, then;
  for (const QualitySample& sample : samples) {
    const double quality = sample.quality();
    if (sample.spent() <= half && (!then || target_.IsBetter(quality, *then))) {
      then = quality;
    }
    if (sample.size_parameters() > entrant.present) continue;
    if (!now || target_.IsBetter(quality, *now)) now = quality;
  }
  entrant.quality = *now;
  entrant.hope = *now;
  if (then && target_.IsBetter(*now, *then)) entrant.hope += *now - *then;
  return entrant;
}

void SweepSearch::Stop(const SearchChild& child, const std::string& reason) {
  Of(child).set_dominated(reason);
}

bool SweepSearch::StopTooLarge() {
  bool stopped = false;
  for (const v1::SweepRun& run : sweep().runs()) {
    SweepChild& record = *record_->mutable_runs(run.index());
    const int64_t expected = ExpectedSize(run.index());
    if (IsOver(run.state()) || !record.dominated().empty() || expected == 0 ||
        target_.MeetsSize(expected)) {
      continue;
    }
    record.set_dominated(absl::StrCat("stopped: it has ", SizeWords(expected),
                                      " parameters, more than the target of ",
                                      SizeWords(target_.parameters)));
    stopped = true;
  }
  return stopped;
}

bool SweepSearch::StopLarger() {
  if (!target_.has_quality) return false;
  const v1::SweepRun* smallest = nullptr;
  int64_t size = 0;
  for (const v1::SweepRun& run : sweep().runs()) {
    const SweepChild& record = record_->runs(run.index());
    if (run.state() != v1::SWEEP_RUN_SUCCEEDED || !record.has_result()) {
      continue;
    }
    const QualitySample& result = record.result();
    if (!result.meets_quality() ||
        !target_.MeetsSize(result.size_parameters())) {
      continue;
    }
    if (smallest == nullptr || result.size_parameters() < size) {
      smallest = &run;
      size = result.size_parameters();
    }
  }
  if (smallest == nullptr) return false;
  bool stopped = false;
  for (const v1::SweepRun& run : sweep().runs()) {
    SweepChild& record = *record_->mutable_runs(run.index());
    if (IsOver(run.state()) || !record.dominated().empty()) continue;
    const int64_t expected = ExpectedSize(run.index());
    if (expected == 0 || expected < size) continue;
    Stop({false, run.index()},
         absl::StrCat(
             "stopped: ", CandidateWords(plan_->runs[smallest->index()].label),
             " met the target with ", SizeWords(size),
             " parameters, this one would have ", SizeWords(expected)));
    stopped = true;
  }
  return stopped;
}

void SweepSearch::StopIdleStages() {
  for (const v1::SweepStage& stage : sweep().stages()) {
    SweepChild& record = *record_->mutable_stages(stage.index());
    if (IsOver(stage.state()) || !record.dominated().empty()) continue;
    const std::vector<int>& runs = plan_->stages[stage.index()].runs;
    const bool idle = std::all_of(runs.begin(), runs.end(), [&](int run) {
      return IsOver(sweep().runs(run).state()) ||
             !record_->runs(run).dominated().empty();
    });
    if (idle) record.set_dominated(record_->runs(runs.front()).dominated());
  }
}

bool SweepSearch::IsMeasuring() const {
  return InTime() && sweep().search().round() == 1 &&
         !HasOwnSteps(sweep().spec().job());
}

SweepSearch::Decision SweepSearch::Decide() {
  Decision decision;
  if (sweep().state() != v1::Sweep::ACTIVE) return decision;
  const bool too_large = StopTooLarge();
  const bool larger = StopLarger();
  decision.changed = too_large || larger;
  StopIdleStages();
  const std::vector<SearchChild> live = Live();
  // A round whose others have ended needs no pause.
  if (search().allowance() > 0 && !live.empty() && AllHaveRested(live)) {
    EndRound(&decision);
    return decision;
  }
  for (const SearchChild& child : live) {
    const v1::JobState job_state = child.stage
                                       ? sweep().stages(child.index).job_state()
                                       : sweep().runs(child.index).job_state();
    const std::string& job = child.stage ? sweep().stages(child.index).job()
                                         : sweep().runs(child.index).job();
    if (job.empty()) continue;
    if (job_state == v1::PAUSED) {
      if (!IsSpent(child)) decision.resume.push_back(job);
    } else if (IsDue(child)) {
      decision.pause.push_back(job);
    }
  }
  return decision;
}

bool SweepSearch::IsSpent(const SearchChild& child) const {
  return search().allowance() > 0 && SpentFor(child) >= search().allowance();
}

bool SweepSearch::IsDue(const SearchChild& child) const {
  return IsSpent(child) &&
         (!QualitiesOf(child).empty() ||
          SpentFor(child) >= kOverdraft * search().allowance());
}

void SweepSearch::EndRound(Decision* decision) {
  decision->changed = true;
  const std::vector<SearchChild> live = Live();
  std::vector<SearchEntrant> entrants;
  for (size_t i = 0; i < live.size(); ++i) {
    entrants.push_back(Describe(live[i], static_cast<int>(i)));
  }
  const size_t keep = live.size() <= 2 ? live.size() : (live.size() + 1) / 2;
  for (const SearchStop& stop : StopWorse(target_, entrants, keep)) {
    const SearchChild& child = live[stop.id];
    Stop(child, stop.reason);
    if (!child.stage) continue;
    for (int run : plan_->stages[child.index].runs) {
      if (!IsOver(sweep().runs(run).state())) {
        Stop({false, run}, stop.reason);
      }
    }
  }
  BeginRound(Live(), decision);
}

void SweepSearch::BeginRound(const std::vector<SearchChild>& live,
                             Decision* decision) {
  const int count = static_cast<int>(live.size());
  const double left = std::max(0.0, state().budget() - BudgetSpent());
  search().set_rounds_spent(BudgetSpent());
  const SearchRounds plan = PlanSearchRounds(count, left, Parallel());
  double spent = 0;
  if (IsMeasuring()) {
    for (const SearchChild& child : live) StartOver(child, plan.last, decision);
  }
  for (const SearchChild& child : live) {
    spent = std::max(spent, SpentFor(child));
  }
  search().set_round_begin(spent);
  search().set_allowance(
      plan.rounds > 1 ? spent + NextSearchShare(count, left, Parallel()) : 0);
  state().set_round(state().round() + 1);
  state().set_rounds(state().round() + plan.rounds - 1);
}

void SweepSearch::StartOver(const SearchChild& child, double share,
                            Decision* decision) {
  // A run that continues an early stage has that stage's plan.
  if (!child.stage && sweep().runs(child.index).stage() >= 0) return;
  SweepChild& record = Of(child);
  const v1::JobProgress& progress = child.stage
                                        ? sweep().stages(child.index).progress()
                                        : sweep().runs(child.index).progress();
  if (record.spent() <= 0 || progress.step() <= 0) return;
  const double speed = static_cast<double>(progress.step()) / record.spent();
  const double steps = std::max(kLeastSteps, speed * share);
  const auto planned = static_cast<double>(progress.total_steps());
  if (steps >= kLeastFit * planned && steps <= kMostFit * planned) return;
  record.set_planned_steps(static_cast<int64_t>(steps));
  record.set_restarts(record.restarts() + 1);
  record.set_spent_before(record.spent_before() + record.spent());
  record.set_spent(0);
  record.clear_counted_micros();
  record.clear_qualities();
  decision->start_over.push_back(child);
}

bool SweepSearch::MayStart(int run) const {
  return search().allowance() == 0 || sweep().runs(run).stage() < 0 ||
         SpentFor({false, run}) < search().allowance();
}

v1::JobSpec SweepSearch::PlannedSpec(const SearchChild& child,
                                     v1::JobSpec spec) const {
  int64_t steps = Of(child).planned_steps();
  if (!child.stage && sweep().runs(child.index).stage() >= 0) {
    steps = record_->stages(sweep().runs(child.index).stage()).planned_steps();
  }
  if (steps <= 0) return spec;
  const v1::ObjectiveSpec& given = sweep().spec().job().objective();
  if (!child.stage) {
    PlanSearchSteps(given, steps, &spec);
    return spec;
  }
  // A stage has the early steps of its runs.
  v1::JobSpec run = plan_->runs[plan_->stages[child.index].runs.front()].spec;
  PlanSearchSteps(given, steps, &run);
  v1::ObjectiveSpec& objective = *spec.mutable_objective();
  objective.mutable_early()->set_steps(run.objective().early().steps());
  objective.mutable_late()->set_max_steps(run.objective().late().max_steps());
  return spec;
}

std::string SweepSearch::WordsOf(int run) const {
  const SweepChild& record = record_->runs(run);
  if (!record.has_result()) return "";
  const QualitySample& result = record.result();
  const bool met =
      result.meets_quality() && target_.MeetsSize(result.size_parameters());
  return absl::StrCat(met ? "" : "missed the target: ", target_.Name(), " ",
                      FigureWords(result.quality()), " with ",
                      SizeWords(result.size_parameters()), " parameters");
}

std::optional<SearchChoice> SweepSearch::Conclude() {
  std::vector<SearchResult> results;
  std::vector<SearchAccount> accounts;
  for (const v1::SweepRun& run : sweep().runs()) {
    const SweepChild& record = record_->runs(run.index());
    SearchAccount account;
    account.label = plan_->runs[run.index()].label;
    account.learned = run.index() < search().from_history();
    account.has_model = run.state() == v1::SWEEP_RUN_SUCCEEDED;
    if (record.has_result()) {
      account.measured = true;
      account.size = record.result().size_parameters();
      account.quality = record.result().quality();
      account.meets_quality = record.result().meets_quality();
    } else {
      const SearchEntrant described = Describe({false, run.index()}, 0);
      account.measured = described.measured;
      account.size = described.size;
      account.quality = described.quality;
    }
    if (account.has_model && account.measured) {
      results.push_back(
          {run.index(), account.size, account.quality, account.meets_quality});
    }
    accounts.push_back(std::move(account));
  }
  const std::optional<SearchChoice> choice = ChooseModel(target_, results);
  if (choice) state().set_chosen_run(choice->id);
  state().set_explanation(ExplainChoice(
      target_, accounts, choice ? choice->id : -1, choice && choice->met));
  return choice;
}

}  // namespace comera::server
