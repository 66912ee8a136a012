// Steers the runs of a search from round to round.
#include "server/sweep/sweep_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/sweep/search_job.h"
#include "proto/sweep/search_rounds.h"
#include "server/rpc/proto_time.h"
#include "server/sweep/search_stops.h"
#include "server/sweep/search_words.h"

namespace comera::server {
namespace {

// A candidate without any validation may overdraw its allowance so often.
constexpr double kOverdraft = 3;
// A plan may be off by so much before a run is started over for it.
constexpr double kLeastFit = 0.75;
constexpr double kMostFit = 1.5;
// The share of the budget of one or two candidates that measures their speed.
constexpr double kMeasuringShare = 0.2;
// Shorter runs teach nothing.
constexpr double kLeastSteps = 20;
// Rounds that a group plays whatever they show.
constexpr int kGroupRounds = 2;
// Shares are compared with this much slack: a pause comes at a whole step.
constexpr double kAlmost = 0.95;
// A candidate that will miss the quality by this share of it, and has had so
// many validations at its present size, need not wait for the end of a round to
// be stopped. Models that were just pruned lose less, and win it back.
constexpr double kFarOff = 0.1;
constexpr int kLeastValidations = 2;

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

// The rounds that a group plays before the next one begins, of `rounds` in all.
int GroupRounds(int rounds) { return std::min(kGroupRounds, rounds - 1); }

}  // namespace

SweepSearch::SweepSearch(SweepRecord* record, const SweepPlan* plan)
    : record_(record),
      plan_(plan),
      ledger_(record, plan),
      groups_(GroupBySize(*plan)) {}

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
  if (!ledger_.target().has_quality || Parallel() > 1 || IsMeasuring()) return;
  search().set_first_share(rounds.first);
  search().set_full_share(rounds.last);
  if (rounds.rounds == 1) return;
  search().set_group(1);
  search().set_group_round(1);
  const int groups = static_cast<int>(groups_.groups.size());
  state().set_rounds(rounds.rounds + (groups - 1) * GroupRounds(rounds.rounds));
}

void SweepSearch::OnMetrics(const SearchChild& child,
                            const v1::StepMetrics& metrics, absl::Time time,
                            int64_t attempt) {
  ledger_.OnMetrics(child, metrics, time, attempt);
  state().set_spent(BudgetSpent());
}

int SweepSearch::Parallel() const {
  return sweep().spec().job().budget().has_time()
             ? std::max(1, search().parallel())
             : 1;
}

double SweepSearch::BudgetSpent() const {
  const double all = ledger_.TotalSpent() / Parallel();
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
        std::max(0.0, ledger_.SpentFor(child) - search().round_begin());
    sum += spent;
    most = std::max(most, spent);
  }
  return std::max(most,
                  sum / std::min(Parallel(), static_cast<int>(live.size())));
}

int SweepSearch::GroupOf(const SearchChild& child) const {
  SearchChild entrant = child;
  if (!child.stage && sweep().runs(child.index).stage() >= 0) {
    entrant = {true, sweep().runs(child.index).stage()};
  }
  for (size_t i = 0; i < groups_.groups.size(); ++i) {
    const std::vector<SearchChild>& group = groups_.groups[i];
    if (std::find(group.begin(), group.end(), entrant) != group.end()) {
      return static_cast<int>(i) + 1;
    }
  }
  return 1;
}

std::vector<SearchChild> SweepSearch::Live() const {
  std::vector<SearchChild> live;
  const auto add = [&](const SearchChild& child) {
    if (IsOver(StateOf(child)) || !ledger_.Of(child).dominated().empty()) {
      return;
    }
    if (search().group() > 0 && GroupOf(child) > search().group()) return;
    live.push_back(child);
  };
  for (int i = 0; i < sweep().stages_size(); ++i) add({true, i});
  for (const v1::SweepRun& run : sweep().runs()) {
    if (run.stage() < 0 ||
        sweep().stages(run.stage()).state() == v1::SWEEP_RUN_SUCCEEDED) {
      add({false, run.index()});
    }
  }
  return live;
}

std::vector<SearchChild> SweepSearch::Playing() const {
  std::vector<SearchChild> playing = Live();
  if (search().group() == 0) return playing;
  playing.erase(std::remove_if(playing.begin(), playing.end(),
                               [&](const SearchChild& child) {
                                 return ledger_.Of(child).waits() ||
                                        GroupOf(child) != search().group();
                               }),
                playing.end());
  return playing;
}

std::pair<int64_t, int64_t> SweepSearch::PlaceInTurn(
    const SearchChild& child) const {
  const auto size_of = [&](int run) {
    const int64_t expected = ledger_.ExpectedSize(run);
    return expected > 0 ? expected : ledger_.PlannedSize(run);
  };
  const int stage =
      child.stage ? child.index : sweep().runs(child.index).stage();
  if (stage < 0) return {size_of(child.index), 0};
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int run : plan_->stages[stage].runs) {
    if (!IsOver(sweep().runs(run).state())) {
      least = std::min(least, size_of(run));
    }
  }
  return {least, child.stage ? 0 : -size_of(child.index)};
}

std::vector<SearchChild> SweepSearch::Turns() const {
  int room = search().parallel();
  std::vector<SearchChild> waiting;
  for (const SearchChild& child : Playing()) {
    const bool runs = StateOf(child) == v1::SWEEP_RUN_ACTIVE &&
                      JobStateOf(child) != v1::PAUSED;
    if (runs) {
      --room;
    } else if (!IsSpent(child)) {
      waiting.push_back(child);
    }
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [&](const SearchChild& a, const SearchChild& b) {
                     return PlaceInTurn(a) < PlaceInTurn(b);
                   });
  waiting.resize(std::min<size_t>(waiting.size(), std::max(0, room)));
  return waiting;
}

v1::SweepRunState SweepSearch::StateOf(const SearchChild& child) const {
  return child.stage ? sweep().stages(child.index).state()
                     : sweep().runs(child.index).state();
}

v1::JobState SweepSearch::JobStateOf(const SearchChild& child) const {
  return child.stage ? sweep().stages(child.index).job_state()
                     : sweep().runs(child.index).job_state();
}

const std::string& SweepSearch::JobOf(const SearchChild& child) const {
  return child.stage ? sweep().stages(child.index).job()
                     : sweep().runs(child.index).job();
}

bool SweepSearch::HasRested(const SearchChild& child) const {
  const bool spent = ledger_.SpentFor(child) >= search().allowance();
  if (!child.stage && StateOf(child) == v1::SWEEP_RUN_WAITING) {
    return spent && sweep().runs(child.index).stage() >= 0;
  }
  return spent && JobStateOf(child) == v1::PAUSED;
}

bool SweepSearch::IsRoundOver() const {
  const std::vector<SearchChild> playing = Playing();
  // The search is over with its last round, but not with that of a group.
  if (playing.empty()) return search().group() > 0;
  return search().allowance() > 0 && std::all_of(playing.begin(), playing.end(),
                                                 [&](const SearchChild& child) {
                                                   return HasRested(child);
                                                 });
}

bool SweepSearch::IsMeasuring() const {
  return ledger_.InTime() && sweep().search().round() == 1 &&
         !HasOwnSteps(sweep().spec().job());
}

SweepSearch::Decision SweepSearch::Decide() {
  Decision decision;
  if (sweep().state() != v1::Sweep::ACTIVE) return decision;
  const bool too_large = StopTooLarge(ledger_, record_);
  const bool larger = StopLarger(ledger_, *plan_, record_);
  const bool shrunk = TakesTurns() && StopMoreShrunk(ledger_, *plan_, record_);
  const bool far_off =
      TakesTurns() && HasMet(ledger_, *record_) && StopHopeless(kFarOff);
  decision.changed = too_large || larger || shrunk || far_off;
  StopIdleStages(*plan_, record_);
  // A round whose others have ended needs no pause.
  if (IsRoundOver()) {
    if (search().group() > 0) {
      EndGroupRound(&decision);
    } else {
      EndRound(&decision);
    }
    return decision;
  }
  for (const SearchChild& child : Live()) {
    if (JobOf(child).empty()) continue;
    if (JobStateOf(child) == v1::PAUSED) {
      if (!TakesTurns() && !IsSpent(child)) {
        decision.resume.push_back(JobOf(child));
      }
    } else if (IsDue(child)) {
      decision.pause.push_back(JobOf(child));
    }
  }
  if (!TakesTurns()) return decision;
  for (const SearchChild& child : Turns()) {
    if (JobStateOf(child) == v1::PAUSED) {
      decision.resume.push_back(JobOf(child));
    }
  }
  return decision;
}

bool SweepSearch::IsSpent(const SearchChild& child) const {
  return search().allowance() > 0 &&
         ledger_.SpentFor(child) >= search().allowance();
}

bool SweepSearch::IsDue(const SearchChild& child) const {
  return IsSpent(child) &&
         (!ledger_.QualitiesOf(child).empty() ||
          ledger_.SpentFor(child) >= kOverdraft * search().allowance());
}

bool SweepSearch::IsHopeful(const SearchChild& child) const {
  const SearchEntrant entrant = ledger_.Describe(child, 0);
  return entrant.measured &&
         (entrant.speeding_up || ledger_.target().MeetsQuality(entrant.hope));
}

void SweepSearch::StopAllBut(size_t keep,
                             const std::vector<SearchChild>& children) {
  std::vector<SearchEntrant> entrants;
  for (size_t i = 0; i < children.size(); ++i) {
    entrants.push_back(ledger_.Describe(children[i], static_cast<int>(i)));
  }
  for (const SearchStop& stop : StopWorse(ledger_.target(), entrants, keep)) {
    StopChild(children[stop.id], stop.reason);
  }
}

void SweepSearch::StopChild(const SearchChild& child,
                            const std::string& reason) {
  ledger_.Of(child).set_dominated(reason);
  if (!child.stage) return;
  for (int run : plan_->stages[child.index].runs) {
    if (!IsOver(sweep().runs(run).state())) {
      record_->mutable_runs(run)->set_dominated(reason);
    }
  }
}

void SweepSearch::CountRound() {
  state().set_round(state().round() + 1);
  state().set_rounds(std::max(state().rounds(), state().round()));
}

void SweepSearch::EndGroupRound(Decision* decision) {
  decision->changed = true;
  const int rounds = PlanSearchRounds(CountEntrants(*plan_), 1).rounds;
  if (search().group_round() == 1) {
    // Members that have ended count, too: they are no reason to stop others.
    const size_t members = groups_.groups[search().group() - 1].size();
    StopAllBut((members + 1) / 2, Playing());
  }
  if (search().group_round() >= GroupRounds(rounds)) {
    for (const SearchChild& child : Playing()) {
      if (!IsHopeful(child)) ledger_.Of(child).set_waits(true);
    }
  }
  if (Playing().empty()) return BeginNextGroup(decision);
  search().set_group_round(search().group_round() + 1);
  // The last share is all that a candidate may spend.
  const double allowance =
      search().group_round() < rounds
          ? std::ldexp(search().first_share(), search().group_round() - 1)
          : 0;
  if (CostOf(Playing(), allowance) > state().budget() - BudgetSpent()) {
    // The budget does not carry all of them any further for now.
    for (const SearchChild& child : Playing()) {
      ledger_.Of(child).set_waits(true);
    }
    return BeginNextGroup(decision);
  }
  search().set_allowance(allowance);
  CountRound();
}

double SweepSearch::CostOf(const std::vector<SearchChild>& children,
                           double allowance) const {
  const double share = allowance > 0 ? allowance : search().full_share();
  double cost = 0;
  for (const SearchChild& child : children) {
    cost += std::max(0.0, share - ledger_.SpentFor(child));
  }
  return cost;
}

void SweepSearch::BeginNextGroup(Decision* decision) {
  const int groups = static_cast<int>(groups_.groups.size());
  while (search().group() < groups) {
    search().set_group(search().group() + 1);
    search().set_group_round(1);
    search().set_allowance(search().first_share());
    if (Playing().empty()) continue;
    CountRound();
    return;
  }
  search().set_group(0);
  for (SweepChild& child : *record_->mutable_runs()) child.clear_waits();
  for (SweepChild& child : *record_->mutable_stages()) child.clear_waits();
  EndRound(decision);
}

bool SweepSearch::StopHopeless(double margin) {
  bool stopped = false;
  for (const SearchChild& child : Live()) {
    if (ledger_.SpentFor(child) < kAlmost * search().full_share() / 2) continue;
    const SearchEntrant entrant = ledger_.Describe(child, 0);
    if (!entrant.measured || IsHopeful(child) ||
        ledger_.target().Shortfall(entrant.hope) < margin ||
        (margin > 0 && entrant.validations < kLeastValidations)) {
      continue;
    }
    stopped = true;
    StopChild(
        child,
        absl::StrCat("stopped: another model has met the target, and "
                     "this one, at ",
                     ledger_.target().Name(), " ", FigureWords(entrant.quality),
                     " after half of its training, promises to miss it"));
  }
  return stopped;
}

void SweepSearch::EndRound(Decision* decision) {
  decision->changed = true;
  if (TakesTurns() && HasMet(ledger_, *record_)) StopHopeless(0);
  const std::vector<SearchChild> live = Live();
  StopAllBut(live.size() <= 2 ? live.size() : (live.size() + 1) / 2, live);
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
    spent = std::max(spent, ledger_.SpentFor(child));
  }
  search().set_round_begin(spent);
  double allowance =
      plan.rounds > 1 ? spent + NextSearchShare(count, left, Parallel()) : 0;
  if (TakesTurns()) {
    // What candidates left over that were not needed is not to be spent.
    const double twice = 2 * std::max(spent, search().first_share());
    allowance = allowance > 0 ? std::min(allowance, twice) : twice;
    if (allowance >= kAlmost * search().full_share()) allowance = 0;
  }
  search().set_allowance(allowance);
  state().set_round(state().round() + 1);
  state().set_rounds(state().round() + plan.rounds - 1);
}

void SweepSearch::StartOver(const SearchChild& child, double share,
                            Decision* decision) {
  // A run that continues an early stage has that stage's plan.
  if (!child.stage && sweep().runs(child.index).stage() >= 0) return;
  SweepChild& record = ledger_.Of(child);
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

bool SweepSearch::MayStart(const SearchChild& child) const {
  if (TakesTurns()) {
    const std::vector<SearchChild> turns = Turns();
    return std::find(turns.begin(), turns.end(), child) != turns.end();
  }
  return search().allowance() == 0 || child.stage ||
         sweep().runs(child.index).stage() < 0 ||
         ledger_.SpentFor(child) < search().allowance();
}

v1::JobSpec SweepSearch::PlannedSpec(const SearchChild& child,
                                     v1::JobSpec spec) const {
  int64_t steps = ledger_.Of(child).planned_steps();
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
  v1::JobSpec run = plan_->RunSpec(plan_->stages[child.index].runs.front());
  PlanSearchSteps(given, steps, &run);
  v1::ObjectiveSpec& objective = *spec.mutable_objective();
  objective.mutable_early()->set_steps(run.objective().early().steps());
  objective.mutable_late()->set_max_steps(run.objective().late().max_steps());
  return spec;
}

std::optional<SearchChoice> SweepSearch::Conclude() {
  std::vector<SearchResult> results;
  std::vector<SearchAccount> accounts;
  for (const v1::SweepRun& run : sweep().runs()) {
    const SweepChild& record = record_->runs(run.index());
    SearchAccount account;
    account.label = plan_->runs[run.index()].label;
    account.learned = run.index() < search().from_history();
    account.needless = run.state() == v1::SWEEP_RUN_STOPPED && TakesTurns() &&
                       ledger_.SpentFor({false, run.index()}) <= 0;
    account.has_model = run.state() == v1::SWEEP_RUN_SUCCEEDED;
    if (record.has_result()) {
      account.measured = true;
      account.size = record.result().size_parameters();
      account.quality = record.result().quality();
      account.meets_quality = record.result().meets_quality();
    } else {
      const SearchEntrant described = ledger_.Describe({false, run.index()}, 0);
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
  const std::optional<SearchChoice> choice =
      ChooseModel(ledger_.target(), results);
  if (choice) state().set_chosen_run(choice->id);
  state().set_explanation(ExplainChoice(ledger_.target(), accounts,
                                        choice ? choice->id : -1,
                                        choice && choice->met));
  return choice;
}

}  // namespace comera::server
