// Keeps what the jobs of a search have spent and reached.
#include "server/sweep/search_ledger.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/model_size.h"
#include "server/sweep/search_words.h"

namespace comera::server {
namespace {

constexpr int kKeptQualities = 32;

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

// What is still to come of a quantity that grows each time that the training
// doubles, in units of its newest step: each step is `ratio` times the one
// before. Where the steps do not become smaller, or where that is not known,
// only one more is counted on.
double Continued(double ratio, double doublings) {
  if (!(ratio > 0 && ratio < 1)) return 1;
  return ratio * (1 - std::pow(ratio, doublings)) / (1 - ratio);
}

}  // namespace

bool IsOver(v1::SweepRunState state) {
  return state != v1::SWEEP_RUN_WAITING && state != v1::SWEEP_RUN_ACTIVE;
}

bool IsSpeedingUp(
    const google::protobuf::RepeatedPtrField<QualitySample>& samples,
    double full_share) {
  constexpr double kLongest = 0.5;      // share of the whole training
  constexpr double kLongestIdle = 0.2;  // without any gain
  constexpr double kLeastGain = 0.01;   // less is noise
  const double spent = samples.rbegin()->spent();
  if (spent > kLongest * full_share) return false;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double quarter = kNever, half = kNever, now = kNever;
  for (const QualitySample& sample : samples) {
    // What was reached with more parameters is gone.
    if (sample.size_parameters() > 2 * samples.rbegin()->size_parameters()) {
      return false;
    }
    const double loss = sample.loss();
    if (sample.spent() <= spent / 4) quarter = std::min(quarter, loss);
    if (sample.spent() <= spent / 2) half = std::min(half, loss);
    now = std::min(now, loss);
  }
  if (!std::isfinite(quarter)) return false;
  if (half - now < kLeastGain * now) {
    return samples.begin()->loss() - now < kLeastGain * now &&
           spent <= kLongestIdle * full_share;
  }
  return half - now >= 2 * (quarter - half);  // in twice the time
}

SearchLedger::SearchLedger(SweepRecord* record, const SweepPlan* plan)
    : record_(record),
      plan_(plan),
      target_(SearchTargetOf(record->sweep().spec().job().objective().late())) {
}

SweepChild& SearchLedger::Of(const SearchChild& child) {
  return child.stage ? *record_->mutable_stages(child.index)
                     : *record_->mutable_runs(child.index);
}

const SweepChild& SearchLedger::Of(const SearchChild& child) const {
  return child.stage ? record_->stages(child.index)
                     : record_->runs(child.index);
}

bool SearchLedger::InTime() const {
  return !sweep().spec().job().budget().has_steps();
}

double SearchLedger::TotalSpent() const {
  double spent = 0;
  for (const SweepChild& run : record_->runs()) {
    spent += run.spent() + run.spent_before();
  }
  for (const SweepChild& stage : record_->stages()) {
    spent += stage.spent() + stage.spent_before();
  }
  return spent;
}

double SearchLedger::SpentFor(const SearchChild& child) const {
  double spent = Of(child).spent();
  if (!child.stage && sweep().runs(child.index).stage() >= 0) {
    spent += record_->stages(sweep().runs(child.index).stage()).spent();
  }
  return spent;
}

const google::protobuf::RepeatedPtrField<QualitySample>&
SearchLedger::QualitiesOf(const SearchChild& child) const {
  const SweepChild& own = Of(child);
  if (child.stage || own.qualities_size() > 0) return own.qualities();
  const int stage = sweep().runs(child.index).stage();
  return stage < 0 ? own.qualities() : record_->stages(stage).qualities();
}

double SearchLedger::QualityOf(const v1::StepMetrics& metrics,
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

double SearchLedger::QualityOf(const v1::TrainingResult& result) const {
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

void SearchLedger::OnMetrics(const SearchChild& child,
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
    const int64_t before = child.stage || sweep().runs(child.index).stage() < 0
                               ? 0
                               : plan_->runs[child.index].early_steps;
    record.set_spent(
        std::max(record.spent(), static_cast<double>(metrics.step() - before)));
  }
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

void SearchLedger::OnResult(const SearchChild& child,
                            const v1::TrainingResult& result) {
  QualitySample* sample = Of(child).mutable_result();
  sample->set_spent(SpentFor(child));
  sample->set_loss(result.validation_loss());
  sample->set_quality(QualityOf(result));
  sample->set_size_parameters(
      target_.SizeOf(result.size_parameters(), result.size_bytes()));
  sample->set_meets_quality(
      sweep().spec().job().objective().late().confidence() > 0
          ? result.outcome() == v1::TARGET_MET
          : target_.MeetsQuality(sample->quality()));
  if (child.stage) return;
  record_->mutable_sweep()
      ->mutable_runs(child.index)
      ->set_quality(sample->quality());
}

int64_t SearchLedger::FirstSize(int run) const {
  const int stage = sweep().runs(run).stage();
  const int64_t own = sweep().runs(run).progress().size_parameters();
  if (own > 0 || stage < 0) return own;
  return sweep().stages(stage).progress().size_parameters();
}

int64_t SearchLedger::ExpectedSize(int run) const {
  const SearchChild child{false, run};
  const SweepChild& record = Of(child);
  if (record.has_result()) return record.result().size_parameters();
  const auto& samples = QualitiesOf(child);
  // Until the first validation, by the first figures of any kind.
  const int64_t now =
      samples.empty() ? FirstSize(run) : samples.rbegin()->size_parameters();
  if (now <= 0) return 0;
  const SweepPlan::Run& plan = plan_->runs[run];
  if (plan.method != v1::CompressionSpec::COMERA) return now;
  if (plan.target_parameters > 0) {
    return std::min(now, plan.target_parameters);
  }
  // The share is one of the size at the start of the late stage.
  const int stage = sweep().runs(run).stage();
  const auto& early =
      stage >= 0 ? record_->stages(stage).qualities() : record.qualities();
  int64_t whole = now;
  for (const QualitySample& sample : early) {
    whole = std::max(whole, sample.size_parameters());
  }
  const double shrunk = plan.target_ratio * static_cast<double>(whole);
  return std::min(now, static_cast<int64_t>(shrunk));
}

int64_t SearchLedger::PlannedSize(int run) const {
  if (plan_->runs[run].method == v1::CompressionSpec::COMERA) return 0;
  const v1::JobSpec spec = plan_->RunSpec(run);
  const double most = LargestModelParameters(spec);
  return SmallestModelParameters(spec) == most ? static_cast<int64_t>(most) : 0;
}

bool SearchLedger::LearnsLate(int run) const {
  const v1::JobSpec spec = plan_->RunSpec(run);
  return spec.compression().method() == v1::CompressionSpec::COMERA &&
         spec.compression().attention().dense();
}

SearchEntrant SearchLedger::Describe(const SearchChild& child, int id) const {
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
    entrant.learns_late = LearnsLate(std::max(largest, 0));
  } else {
    size = ExpectedSize(child.index);
    entrant.name = CandidateWords(plan_->runs[child.index].label);
    entrant.learns_late = LearnsLate(child.index);
  }
  const auto& samples = QualitiesOf(child);
  if (samples.empty()) return entrant;
  entrant.measured = true;
  entrant.size = size;
  entrant.present = samples.rbegin()->size_parameters();
  // At its present size: what was reached with more parameters is gone.
  const double spent = samples.rbegin()->spent();
  std::optional<double> now, half, quarter, loss, half_loss;
  const auto improve = [&](std::optional<double>* best, double quality) {
    if (!*best || target_.IsBetter(quality, **best)) *best = quality;
  };
  for (const QualitySample& sample : samples) {
    if (sample.spent() <= spent / 4) improve(&quarter, sample.quality());
    if (sample.spent() <= spent / 2) improve(&half, sample.quality());
    if (sample.spent() <= spent / 2) {
      half_loss = std::min(half_loss.value_or(sample.loss()), sample.loss());
    }
    if (sample.size_parameters() > entrant.present) continue;
    ++entrant.validations;
    improve(&now, sample.quality());
    loss = std::min(loss.value_or(sample.loss()), sample.loss());
  }
  entrant.speeding_up = IsSpeedingUp(samples, record_->search().full_share());
  entrant.quality = *now;
  entrant.loss = *loss;
  entrant.hope = *now;
  if (!half || !target_.IsBetter(*now, *half)) return entrant;
  // Without a lower loss, a better metric is luck.
  if (*loss > *half_loss) return entrant;
  const double step = *now - *half;
  const double before = quarter ? *half - *quarter : 0;
  const double doublings =
      std::max(1.0, std::log2(record_->search().full_share() / spent));
  entrant.hope += step * Continued(step / before, doublings);
  return entrant;
}

std::string SearchLedger::WordsOf(int run) const {
  const SweepChild& record = record_->runs(run);
  if (!record.has_result()) return "";
  const QualitySample& result = record.result();
  const bool met =
      result.meets_quality() && target_.MeetsSize(result.size_parameters());
  return absl::StrCat(met ? "" : "missed the target: ", target_.Name(), " ",
                      FigureWords(result.quality()), " with ",
                      SizeWords(result.size_parameters()), " parameters");
}

}  // namespace comera::server
