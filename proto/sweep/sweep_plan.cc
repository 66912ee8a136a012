// Plans a sweep: validates its runs and groups those that can share an early
// stage.

#include "proto/sweep/sweep_plan.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/job_defaults.h"
#include "proto/sweep/search_check.h"
#include "proto/sweep/search_job.h"
#include "proto/sweep/search_portfolio.h"
#include "proto/sweep/search_target.h"
#include "proto/sweep/sweep_runs.h"
#include "proto/validation/message_checks.h"
#include "proto/validation/spec_checker.h"

namespace comera {
namespace {

constexpr int kMaxParallel = 10000;
constexpr int64_t kMaxHalving = 1'000'000'000;
constexpr size_t kMaxNameBytes = 256;
// The limit on violations; this many show well enough what is wrong.
constexpr size_t kMaxViolations = 32;

// Equal for equal messages only, and small, whatever these hold.
std::string Digest(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream output(&stream);
    output.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&output);
  }
  Sha256Stream digest;
  digest.Add(bytes);
  return digest.Finish();
}

void CheckAdministration(const v1::SweepSpec& spec, SpecChecker& check) {
  check.Require(spec.has_job(), "job", "is missing");
  check.Require(spec.display_name().size() <= kMaxNameBytes, "display_name",
                "is longer than 256 bytes");
  check.Range("max_parallel", spec.max_parallel(), 0, kMaxParallel);
  check.Require(!spec.has_dominance_margin() || (spec.dominance_margin() >= 0 &&
                                                 spec.dominance_margin() < 1),
                "dominance_margin", "must be at least 0 and below 1");
  if (spec.has_reference()) {
    check.Require(spec.reference().validation_loss() > 0,
                  "reference.validation_loss", "must be above 0");
    check.Require(spec.reference().size_parameters() > 0,
                  "reference.size_parameters", "must be above 0");
  }
  if (spec.has_halving()) {
    const v1::SuccessiveHalving& halving = spec.halving();
    check.Range("halving.first_steps", halving.first_steps(), 1, kMaxHalving);
    check.Require(halving.factor() == 0 ||
                      (halving.factor() >= 2 && halving.factor() <= 16),
                  "halving.factor",
                  absl::StrCat("must be 2 to 16, not ", halving.factor()));
  }
  check.Require(!spec.job().has_start_from(), "job.start_from",
                "is set by the sweep");
  check.Require(!spec.job().objective().early().only(),
                "job.objective.early.only", "is set by the sweep");
}

// Collects the violations of runs, and reports once those that all runs share.
class RunViolations {
 public:
  void Add(int run, const std::string& label, FieldViolation violation) {
    Entry& entry = entries_[{violation.field, violation.description}];
    if (entry.count++ > 0) return;
    entry.order = entries_.size();
    entry.run = run;
    entry.label = label;
  }

  void Report(size_t runs, std::vector<FieldViolation>* violations) const {
    std::map<size_t, FieldViolation> sorted;
    for (const auto& [key, entry] : entries_) {
      if (entry.count == runs) {
        sorted[entry.order] = {Path("job", key.first), key.second};
      } else {
        sorted[entry.order] = {
            Path(absl::StrCat("runs[", entry.run, "]"), key.first),
            absl::StrCat(
                key.second, " (", entry.label,
                entry.count > 1
                    ? absl::StrCat(", and ", entry.count - 1, " more runs")
                    : "",
                ")")};
      }
    }
    for (auto& [order, violation] : sorted) {
      if (violations->size() >= kMaxViolations) return;
      violations->push_back(std::move(violation));
    }
  }

 private:
  static std::string Path(const std::string& run, const std::string& field) {
    return field.empty() ? run : absl::StrCat(run, ".", field);
  }

  struct Entry {
    size_t count = 0;
    size_t order = 0;
    int run = 0;
    std::string label;
  };
  std::map<std::pair<std::string, std::string>, Entry> entries_;
};

// A key of everything on which the end of the early stage depends. Runs with
// equal keys differ only in their late stages and names.
std::string EarlyKey(v1::JobSpec spec) {
  spec.clear_display_name();
  spec.clear_labels();
  v1::LateStage late;
  // The learning rate decays towards the end of the late stage.
  if (spec.optimizer().decay() != v1::OptimizerSpec::NONE) {
    late.set_max_steps(spec.objective().late().max_steps());
  }
  *spec.mutable_objective()->mutable_late() = late;
  return Digest(spec);
}

// Finds the runs that can share an early stage.
class EarlyStages {
 public:
  void Add(int run, const v1::JobSpec& spec) {
    const v1::ObjectiveSpec& objective = spec.objective();
    if (!objective.has_late() || objective.early().steps() == 0) return;
    // Its last step would not be known.
    if (spec.training().max_tokens() > 0) return;
    groups_[EarlyKey(spec)].push_back(run);
  }

  void Share(SweepPlan* plan) {
    // Stages in the order of their first runs.
    std::map<int, std::vector<int>> shared;
    for (auto& [key, runs] : groups_) {
      if (runs.size() > 1) shared[runs.front()] = std::move(runs);
    }
    for (auto& [first, runs] : shared) {
      for (int run : runs) {
        plan->runs[run].stage = static_cast<int>(plan->stages.size());
      }
      plan->stages.push_back({std::move(runs)});
    }
  }

 private:
  std::map<std::string, std::vector<int>> groups_;
};

// Shortens the name without splitting a UTF-8 character.
std::string CutName(std::string name) {
  if (name.size() <= kMaxNameBytes) return name;
  size_t end = kMaxNameBytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) {
    --end;
  }
  name.resize(end);
  return name;
}

// The run of that point as the file says it, without its defaults.
v1::JobSpec SpecAt(const SweepPlan& plan, const SweepChange& change,
                   SpecChecker& check) {
  const v1::JobSpec& base = plan.source->job();
  v1::JobSpec spec = base;
  ApplyChange(change, &spec, check);
  if (plan.search_steps > 0) {
    PlanSearchSteps(base.objective(), plan.search_steps, &spec);
  }
  return spec;
}

// Notes of the run what is asked for again and again.
void Summarize(const v1::JobSpec& spec, SweepPlan::Run* run) {
  const v1::LateStage& late = spec.objective().late();
  run->method = spec.compression().method();
  run->early_steps = spec.objective().early().steps();
  run->late_targets = late.targets_size();
  run->target_ratio = late.target_ratio();
  run->target_parameters = SearchTargetOf(late).parameters;
}

void CheckRunSize(const v1::JobSpec& spec, const SweepLimits& limits,
                  std::vector<FieldViolation>* violations) {
  const size_t bytes = spec.ByteSizeLong();
  if (bytes <= limits.run_bytes) return;
  violations->push_back(
      {"", absl::StrCat("has ", bytes, " bytes, of at most ", limits.run_bytes,
                        ": name many files by a pattern or a dataset")});
}

// Plans the runs of a checked specification. `steps`, unless it is 0, is what
// each run of a search is planned with.
SweepPlan PlanRuns(std::shared_ptr<const v1::SweepSpec> spec, int64_t steps,
                   const SweepLimits& limits,
                   std::vector<FieldViolation>* violations) {
  SweepPlan plan;
  SpecChecker check(violations);
  const int points = CountSweepPoints(*spec, limits.total_bytes, check);
  if (!violations->empty()) return plan;
  plan.source = std::move(spec);
  plan.search_steps = steps;

  RunViolations wrong;
  std::set<std::string> seen, filled, told;
  // Runs whose early stages are the same, in the order of their first ones.
  EarlyStages early;
  for (int point = 0; point < points; ++point) {
    const SweepChange change = SweepPointAt(*plan.source, point);
    SweepPlan::Run run;
    run.label = CutName(SweepLabel(change.point));
    run.point = point;
    const size_t before = violations->size();
    v1::JobSpec job = SpecAt(plan, change, check);
    // A bad value of an axis appears in every run that has it, so it is
    // reported once.
    while (violations->size() > before &&
           !told.insert(violations->back().field).second) {
      violations->pop_back();
    }
    if (violations->size() >= kMaxViolations) break;
    if (!violations->empty()) continue;
    if (!seen.insert(Digest(job)).second) continue;
    std::vector<FieldViolation> bad = ValidateJobSpec(job, &job);
    CheckRunSize(job, limits, &bad);
    const int index = static_cast<int>(plan.runs.size());
    for (const FieldViolation& violation : bad) {
      wrong.Add(index, run.label, violation);
    }
    if (bad.empty()) {
      if (!filled.insert(Digest(job)).second) continue;
      Summarize(job, &run);
      early.Add(index, job);
      plan.queues.insert(job.queue());
      if (job.has_program()) plan.program_queues.insert(job.queue());
    }
    plan.runs.push_back(std::move(run));
  }
  if (violations->empty()) wrong.Report(plan.runs.size(), violations);
  if (!violations->empty()) return SweepPlan();
  if (!plan.source->has_share_early_stage() ||
      plan.source->share_early_stage()) {
    early.Share(&plan);
  }
  return plan;
}

// Whether the job of a search is valid with the candidate's changes.
bool IsSound(const v1::JobSpec& base, const v1::SweepPoint& point) {
  std::vector<FieldViolation> violations;
  SpecChecker check(&violations);
  SweepChange change;
  change.point = point;
  change.field_sources.assign(point.fields_size(), "");
  v1::JobSpec job = base;
  ApplyChange(change, &job, check);
  PlanSearchSteps(base.objective(), 2, &job);
  return violations.empty() && ValidateJobSpec(job, nullptr).empty();
}

SweepPlan PlanSearch(const v1::SweepSpec& spec, const SweepLimits& limits,
                     std::vector<FieldViolation>* violations) {
  SpecChecker check(violations);
  CheckSearch(spec, check);
  if (!violations->empty()) return SweepPlan();
  auto planned =
      std::make_shared<v1::SweepSpec>(WithCandidates(spec, {}, nullptr));
  if (planned->list().empty()) {
    check.Add("job.objective.late",
              "asks for a size that no model of this family can have");
    return SweepPlan();
  }
  *planned->mutable_job() = SearchBaseJob(spec);
  // How many of the runs are candidates of their own follows from which of them
  // share an early stage; what each may do follows from that.
  SweepPlan plan = PlanRuns(planned, 2, limits, violations);
  if (!violations->empty()) return SweepPlan();
  return PlanRuns(planned, FirstSearchSteps(spec.job(), CountEntrants(plan)),
                  limits, violations);
}

}  // namespace

int CountEntrants(const SweepPlan& plan) {
  int entrants = static_cast<int>(plan.stages.size());
  for (const SweepPlan::Run& run : plan.runs) entrants += run.stage < 0 ? 1 : 0;
  return entrants;
}

v1::JobSpec SweepPlan::RunSpec(int run) const {
  std::vector<FieldViolation> none;
  SpecChecker check(&none);
  const SweepChange change = SweepPointAt(*source, runs[run].point);
  v1::JobSpec spec = WithDefaults(SpecAt(*this, change, check));
  const std::string& label = runs[run].label;
  const std::string& base = source->display_name().empty()
                                ? source->job().display_name()
                                : source->display_name();
  spec.set_display_name(CutName(
      absl::StrCat(base, base.empty() || label.empty() ? "" : " ", label)));
  return spec;
}

v1::JobSpec SweepPlan::StageSpec(int stage) const {
  v1::JobSpec spec = RunSpec(stages[stage].runs.front());
  v1::ObjectiveSpec& objective = *spec.mutable_objective();
  objective.mutable_early()->set_only(true);
  v1::LateStage late;
  late.set_max_steps(objective.late().max_steps());
  *objective.mutable_late() = late;
  const std::string& name = source->display_name();
  spec.set_display_name(absl::StrCat(name.substr(0, 200),
                                     name.empty() ? "" : " ", "early stage"));
  return WithDefaults(std::move(spec));
}

SweepPlan PlanSweep(const v1::SweepSpec& spec,
                    std::vector<FieldViolation>* violations,
                    const SweepLimits& limits) {
  CheckFields(spec, violations);
  if (!violations->empty()) return SweepPlan();
  SpecChecker check(violations);
  CheckAdministration(spec, check);
  if (!violations->empty()) return SweepPlan();
  if (IsSearch(spec.job())) return PlanSearch(spec, limits, violations);
  check.Require(!spec.has_search(), "search",
                "is for jobs with compression.method AUTO");
  check.Require(!spec.job().has_budget(), "job.budget",
                "is for jobs with compression.method AUTO");
  if (!violations->empty()) return SweepPlan();
  return PlanRuns(std::make_shared<v1::SweepSpec>(spec), 0, limits, violations);
}

v1::SweepSpec WithCandidates(v1::SweepSpec spec,
                             const std::vector<FinishedRun>& history,
                             int* from_history) {
  int learned = 0;
  if (from_history != nullptr) *from_history = 0;
  if (!IsSearch(spec.job()) || !spec.list().empty()) return spec;
  const v1::JobSpec base = SearchBaseJob(spec);
  const std::vector<v1::SweepPoint> all =
      SearchPortfolio(spec, history, &learned);
  int kept = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!IsSound(base, all[i])) continue;
    *spec.add_list() = all[i];
    kept += static_cast<int>(i) < learned ? 1 : 0;
  }
  if (from_history != nullptr) *from_history = kept;
  // The plan then says what is wrong with them.
  if (spec.list().empty()) {
    for (const v1::SweepPoint& point : all) *spec.add_list() = point;
  }
  return spec;
}

v1::SweepSpec WithSweepDefaults(v1::SweepSpec spec) {
  if (!spec.has_share_early_stage()) spec.set_share_early_stage(true);
  if (!spec.has_dominance_margin()) spec.set_dominance_margin(0.05);
  if (spec.has_halving()) {
    v1::SuccessiveHalving& halving = *spec.mutable_halving();
    if (halving.factor() == 0) halving.set_factor(3);
    if (halving.metric() == v1::SuccessiveHalving::METRIC_UNSPECIFIED) {
      halving.set_metric(v1::SuccessiveHalving::LOSS);
    }
  }
  return spec;
}

}  // namespace comera
