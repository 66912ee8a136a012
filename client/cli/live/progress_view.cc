// Words a job's progress, events and final summary.

#include "client/cli/live/progress_view.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/output/plot.h"
#include "client/cli/output/quality_text.h"
#include "client/cli/output/text_format.h"
#include "client/training_client.h"
#include "proto/job_targets.h"
#include "proto/model_family.h"
#include "proto/target_quality.h"

namespace comera::client {
namespace {

constexpr int kBarWidth = 24;

std::string StageText(const RunFigures& figures) {
  const v1::StepMetrics& m = figures.metrics();
  switch (m.stage()) {
    case v1::PREPARING:
      return "preparing";
    case v1::EARLY:
      return "early stage";
    case v1::LATE: {
      const int targets =
          figures.job().spec().objective().late().targets_size();
      if (targets < 2) return "late stage";
      return absl::StrCat("late stage, target ", m.target_index() + 1, " of ",
                          targets);
    }
    default:
      return "starting";
  }
}

// Says how much the truncation of initial weights lost; the log and the event
// (JSON output) have the figures of every layer.
std::string InitialErrorsText(const v1::RunInfo& info) {
  if (info.initial_errors().empty()) return "";
  double sum = 0;
  const v1::LayerError* worst = &info.initial_errors(0);
  for (const v1::LayerError& error : info.initial_errors()) {
    sum += error.relative_error();
    if (error.relative_error() > worst->relative_error()) worst = &error;
  }
  const int layers = info.initial_errors_size();
  return absl::StrFormat(
      ", %d layers from dense weights with relative error %.3f (worst %.3f: "
      "%s)",
      layers, sum / layers, worst->relative_error(), Printable(worst->layer()));
}

// Says how the approach to one target of a list ended.
std::string TargetText(const v1::TargetResult& target,
                       const TargetQuality& asked) {
  const bool is_loss = asked.kind == v1::Target::kTargetLoss ||
                       asked.kind == v1::Target::TARGET_QUALITY_NOT_SET;
  const double reached =
      is_loss ? target.validation_loss() : target.validation_quality();
  return absl::StrFormat(
      "%s: validation %s %s, target %s; size %s, target %s; %s steps",
      target.outcome() == v1::TARGET_MET ? "met" : "missed",
      QualityName(asked.kind), QualityText(asked.kind, reached),
      QualityText(asked.kind, is_loss ? target.target_loss() : asked.value),
      FormatBytes(target.size_bytes()),
      FormatBytes(4.0 * target.target_size_parameters()),
      FormatCount(target.steps()));
}

std::string BitsText(double bits_per_byte) {
  return absl::StrCat(FormatFigure(bits_per_byte), " bits per byte");
}

// Words the figures of the test set.
std::string TestText(const v1::TestResult& test) {
  std::string text =
      absl::StrCat("loss ", FormatFigure(test.loss()), ", accuracy ",
                   QualityText(v1::Target::kTargetAccuracy, test.accuracy()));
  const std::tuple<QualityKind, bool, double> others[] = {
      {v1::Target::kTargetPerplexity, test.has_perplexity(), test.perplexity()},
      {v1::Target::kTargetF1, test.has_f1(), test.f1()},
      {v1::Target::kTargetMcc, test.has_mcc(), test.mcc()},
      {v1::Target::kTargetAuc, test.has_auc(), test.auc()}};
  for (const auto& [kind, has, value] : others) {
    if (!has) continue;
    absl::StrAppend(&text, ", ", QualityName(kind), " ",
                    QualityText(kind, value));
  }
  if (test.has_bits_per_byte()) {
    absl::StrAppend(&text, ", ", BitsText(test.bits_per_byte()));
  }
  return absl::StrCat(text, " (", FormatCount(test.samples()), " samples)");
}

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

// The AUC, beside the best possible one where that is known.
std::string AucText(const RunFigures& figures, double auc) {
  std::string text = absl::StrFormat("%.4f", auc);
  if (figures.run_info() && figures.run_info()->has_ideal_auc()) {
    absl::StrAppendFormat(&text, " of %.4f", figures.run_info()->ideal_auc());
  }
  return text;
}

// The figure that is shown beside the loss: the target's, or else an AUC, a
// decoder's perplexity, or an accuracy.
QualityKind ShownQuality(const RunFigures& figures) {
  const QualityKind asked = figures.target().kind;
  if (asked != v1::Target::TARGET_QUALITY_NOT_SET &&
      asked != v1::Target::kTargetLoss) {
    return asked;
  }
  if (figures.normalized_entropy().has_value()) return v1::Target::kTargetAuc;
  return figures.job().spec().model().family() == v1::ModelSpec::CAUSAL_LM
             ? v1::Target::kTargetPerplexity
             : v1::Target::kTargetAccuracy;
}

std::string LossText(const RunFigures& figures) {
  const v1::StepMetrics& m = figures.metrics();
  std::string text = absl::StrCat(
      "loss ",
      FormatFigure(m.smoothed_loss() > 0 ? m.smoothed_loss() : m.loss()));
  if (const auto loss = figures.validation_loss()) {
    absl::StrAppend(&text, "  validation ", FormatFigure(*loss));
    if (m.target_loss() > 0) {
      absl::StrAppend(&text, " → ", FormatFigure(m.target_loss()));
    }
  } else if (m.target_loss() > 0) {
    absl::StrAppend(&text, "  target ", FormatFigure(m.target_loss()));
  }
  const QualityKind kind = ShownQuality(figures);
  const std::optional<double> value = figures.Quality(kind);
  if (!value.has_value()) return text;
  absl::StrAppend(&text, "  ", QualityName(kind), " ");
  if (kind == v1::Target::kTargetAuc) {
    absl::StrAppend(&text, AucText(figures, *value));
  } else if (kind == v1::Target::kTargetAccuracy) {
    absl::StrAppendFormat(&text, "%.1f%%", 100 * *value);
  } else {
    absl::StrAppend(&text, QualityText(kind, *value));
  }
  if (figures.target().kind == kind) {
    absl::StrAppend(&text, " → ", QualityText(kind, figures.target().value));
  }
  if (figures.bits_per_byte()) {
    absl::StrAppend(&text, "  ", BitsText(*figures.bits_per_byte()));
  }
  return text;
}

std::string SizeText(const RunFigures& figures) {
  const v1::StepMetrics& m = figures.metrics();
  std::string text = absl::StrCat("size ", FormatBytes(m.size_bytes()));
  if (m.target_size_parameters() > 0) {
    absl::StrAppend(&text, " → ",
                    FormatBytes(4.0 * m.target_size_parameters()));
  }
  if (figures.run_info() && m.size_parameters() > 0) {
    absl::StrAppendFormat(
        &text, "  (dense / %.1f)",
        Share(figures.run_info()->dense_parameters(), m.size_parameters()));
  }
  return text;
}

std::string SpeedText(const v1::StepMetrics& m) {
  // Programs of users' own need not tell it.
  std::string text =
      m.samples_per_second() > 0
          ? absl::StrFormat("%.1f samples/s", m.samples_per_second())
          : "";
  if (m.tokens_per_second() > 0) {
    absl::StrAppend(&text, "  ",
                    FormatCount(std::llround(m.tokens_per_second())),
                    " tokens/s");
  }
  if (m.has_model_flops_utilisation()) {
    absl::StrAppendFormat(&text, "  %.1f%% of peak",
                          100 * m.model_flops_utilisation());
  }
  if (m.synchronized_bytes() > 0) {
    absl::StrAppend(&text, "  ", FormatBytes(m.synchronized_bytes()), "/step");
    absl::StrAppendFormat(
        &text, " (dense / %.1f)",
        Share(m.dense_synchronized_bytes(), m.synchronized_bytes()));
  }
  if (m.peak_memory_bytes() > 0) {
    absl::StrAppend(&text, "  memory ", FormatBytes(m.peak_memory_bytes()));
  }
  if (m.energy_joules() > 0) {
    absl::StrAppend(&text, "  energy ", FormatJoules(m.energy_joules()));
  }
  return text;
}

// The energy of a job after so many steps.
std::string EnergyText(double joules, int64_t steps) {
  std::string text = FormatJoules(joules);
  if (steps > 0) {
    absl::StrAppend(&text, ", ",
                    FormatJoules(joules / static_cast<double>(steps)),
                    " per step");
  }
  return text;
}

// The place of a layer class in the model's order (embedding, attention, ...);
// unknown ones come last.
int ClassOrder(const std::string& name) {
  static constexpr const char* kOrder[] = {"embedding", "attention", "ffn_up",
                                           "ffn_down",  "head",      "output",
                                           "table",     "mlp"};
  constexpr int kClasses = 8;
  for (int i = 0; i < kClasses; ++i) {
    if (name == kOrder[i]) return i;
  }
  return kClasses;
}

std::vector<std::pair<std::string, ClassRanks>> OrderedRanks(
    const RunFigures& figures) {
  std::vector<std::pair<std::string, ClassRanks>> ranks(figures.ranks().begin(),
                                                        figures.ranks().end());
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const auto& a, const auto& b) {
                     return ClassOrder(a.first) < ClassOrder(b.first);
                   });
  return ranks;
}

}  // namespace

std::vector<std::string> ProgressBlock(const RunFigures& figures, int width) {
  std::vector<std::string> lines;
  const v1::Job& job = figures.job();
  std::string head =
      absl::StrCat(LastSegment(job.name()), "  ", StateText(job));
  if (!job.reason().empty()) {
    absl::StrAppend(&head, "  ", Printable(job.reason()));
  }
  lines.push_back(head);
  if (figures.has_metrics()) {
    const v1::StepMetrics& m = figures.metrics();
    lines.push_back(absl::StrFormat(
        "%s %s/%s  %s%s", Bar(Share(m.step(), m.total_steps()), kBarWidth),
        FormatCount(m.step()), FormatCount(m.total_steps()), StageText(figures),
        m.has_eta() ? "  ETA " + DurationText(ToDuration(m.eta())) : ""));
    lines.push_back(LossText(figures));
    lines.push_back(SizeText(figures));
    for (const auto& [name, ranks] : OrderedRanks(figures)) {
      lines.push_back(
          absl::StrFormat("%-9s %s rank %.1f of %.1f", Printable(name),
                          Bar(Share(ranks.current, ranks.initial), kBarWidth),
                          ranks.current, ranks.initial));
    }
    if (std::string speed = SpeedText(m); !speed.empty()) {
      lines.push_back(std::move(speed));
    }
  }
  for (std::string& line : lines) line = CutToWidth(line, width);
  return lines;
}

std::string ProgressLine(const RunFigures& figures) {
  const v1::StepMetrics& m = figures.metrics();
  std::vector<std::string> parts = {
      absl::StrCat("step ", m.step(), "/", m.total_steps()), StageText(figures),
      LossText(figures), SizeText(figures)};
  if (std::string speed = SpeedText(m); !speed.empty()) {
    parts.push_back(std::move(speed));
  }
  if (m.has_eta()) {
    parts.push_back("ETA " + DurationText(ToDuration(m.eta())));
  }
  return absl::StrJoin(parts, "  ");
}

std::string EventLine(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kStateChange: {
      v1::Job job;
      job.set_state(event.state_change().state());
      job.set_outcome(event.state_change().outcome());
      *job.mutable_failure() = event.state_change().failure();
      std::string line = StateText(job);
      if (!event.state_change().reason().empty()) {
        absl::StrAppend(&line, ": ", Printable(event.state_change().reason()));
      }
      return line;
    }
    case v1::JobEvent::kIncident: {
      const v1::Failure& failure = event.incident();
      std::string where = failure.rank() >= 0
                              ? absl::StrCat(" on member ", failure.rank())
                              : "";
      // A divergence that the trainer dealt with; one that ends the job is its
      // failure.
      const bool goes_on = failure.failure_class() == v1::DIVERGED;
      return absl::StrCat("attempt ", failure.attempt(),
                          goes_on ? " goes on: " : " lost: ",
                          v1::FailureClass_Name(failure.failure_class()), where,
                          ": ", Printable(failure.message()));
    }
    case v1::JobEvent::kParetoPoint: {
      const v1::ParetoPoint& point = event.pareto_point();
      return absl::StrCat("Pareto point at step ", point.step(),
                          ": validation ",
                          FormatFigure(point.validation_loss()), ", size ",
                          FormatBytes(point.size_bytes()));
    }
    case v1::JobEvent::kDropped:
      return absl::StrCat("(", event.dropped().count(),
                          " progress samples were left out)");
    case v1::JobEvent::kRunInfo: {
      const v1::RunInfo& info = event.run_info();
      // What programs of users' own do not tell is left out.
      std::string line = absl::StrCat(
          info.train_samples() > 0
              ? absl::StrCat(FormatCount(info.train_samples()),
                             " training and ",
                             FormatCount(info.validation_samples()),
                             " validation samples, ")
              : "",
          info.test_samples() > 0
              ? absl::StrCat(FormatCount(info.test_samples()),
                             " test samples, ")
              : "",
          info.vocabulary_size() > 0
              ? absl::StrCat("vocabulary ", FormatCount(info.vocabulary_size()),
                             ", ")
              : "",
          FormatCount(info.initial_parameters()),
          " parameters (dense: ", FormatCount(info.dense_parameters()), ")",
          info.baseline_loss() > 0
              ? absl::StrCat(", baseline loss ",
                             FormatFigure(info.baseline_loss()))
              : "",
          InitialErrorsText(info));
      if (info.has_ideal_auc()) {
        absl::StrAppendFormat(&line, ", ideal AUC %.4f", info.ideal_auc());
      }
      if (info.resumed_from_step() > 0) {
        absl::StrAppend(&line, ", resumed from step ",
                        info.resumed_from_step());
      }
      return line;
    }
    default:
      return "";
  }
}

std::vector<std::string> Summary(const RunFigures& figures,
                                 const DensePeers& peers,
                                 const std::string& model_directory) {
  std::vector<std::vector<std::string>> rows;
  const v1::Job& job = figures.job();
  const auto add = [&](std::string key, std::string value) {
    rows.push_back({std::move(key), std::move(value)});
  };
  add("job", job.name());
  std::string outcome = StateText(job);
  if (!job.reason().empty()) {
    absl::StrAppend(&outcome, ": ", Printable(job.reason()));
  }
  add("outcome", outcome);
  if (job.state() == v1::FAILED && !job.failure().message().empty()) {
    add("failure", Printable(job.failure().message()));
  }
  if (job.has_start_time() && job.has_end_time()) {
    add("time",
        DurationText(ToTime(job.end_time()) - ToTime(job.start_time())));
  }
  if (figures.energy_joules() > 0) {
    add("energy",
        EnergyText(figures.energy_joules(), figures.metrics().step()));
  }
  // ", target 4.95" where the last target asks for this figure.
  const auto target_text = [&](QualityKind kind) -> std::string {
    const bool has_late = job.spec().objective().has_late();
    const TargetQuality asked = figures.target();
    if (!has_late || asked.kind != kind) return "";
    return absl::StrCat(", target ", QualityText(kind, asked.value));
  };
  // Loss and size are those of the last target's model.
  if (const auto loss = figures.validation_loss()) {
    std::string text = FormatFigure(*loss);
    absl::StrAppend(&text, target_text(v1::Target::kTargetLoss));
    if (figures.run_info() && figures.run_info()->baseline_loss() > 0) {
      absl::StrAppend(
          &text, ", ", IsLanguageModel(job.spec().model()) ? "unigram " : "",
          "baseline ", FormatFigure(figures.run_info()->baseline_loss()));
    }
    add("validation loss", text);
  }
  if (const auto auc = figures.Quality(v1::Target::kTargetAuc)) {
    add("validation AUC", absl::StrCat(AucText(figures, *auc),
                                       target_text(v1::Target::kTargetAuc)));
  }
  if (const auto entropy = figures.normalized_entropy()) {
    add("normalised entropy", absl::StrFormat("%.4f", *entropy));
  }
  for (const QualityKind kind :
       {v1::Target::kTargetPerplexity, v1::Target::kTargetAccuracy,
        v1::Target::kTargetF1, v1::Target::kTargetMcc}) {
    const std::optional<double> value = figures.Quality(kind);
    // The perplexity of classes says no more than the loss.
    if (!value || (kind == v1::Target::kTargetPerplexity &&
                   !IsLanguageModel(job.spec().model()))) {
      continue;
    }
    add(absl::StrCat("validation ", QualityName(kind)),
        absl::StrCat(QualityText(kind, *value), target_text(kind)));
  }
  if (const auto bits = figures.bits_per_byte()) {
    add("validation bits per byte", FormatFigure(*bits));
  }
  if (figures.result() && figures.result()->has_test()) {
    add("test set", TestText(figures.result()->test()));
  }
  const int64_t parameters = figures.result()
                                 ? figures.result()->size_parameters()
                                 : figures.metrics().size_parameters();
  if (parameters > 0) {
    std::string text = absl::StrCat(FormatBytes(4.0 * parameters), " (",
                                    FormatCount(parameters), " parameters)");
    const int64_t target = figures.metrics().target_size_parameters();
    if (target > 0)
      absl::StrAppend(&text, ", target ", FormatBytes(4.0 * target));
    if (figures.run_info()) {
      const double dense = figures.run_info()->dense_parameters();
      absl::StrAppendFormat(&text, ", %.1fx smaller than dense (%s)",
                            Share(dense, parameters), FormatBytes(4 * dense));
    }
    add("size", text);
  }
  if (!job.spec().has_program()) {
    for (const auto& [title, text] : DensePeerRows(job, peers)) {
      add(title, text);
    }
  }
  if (figures.result() && figures.result()->targets_size() > 1) {
    const std::vector<v1::Target> asked =
        TargetsOf(job.spec().objective().late());
    size_t number = 0;
    for (const v1::TargetResult& target : figures.result()->targets()) {
      const TargetQuality quality =
          number < asked.size() ? QualityOf(asked[number]) : TargetQuality();
      add(absl::StrCat("target ", ++number), TargetText(target, quality));
    }
  }
  for (const auto& [name, ranks] : OrderedRanks(figures)) {
    add(absl::StrCat("ranks ", Printable(name)),
        absl::StrFormat("%.1f → %.1f", ranks.initial, ranks.current));
  }
  const v1::StepMetrics& m = figures.metrics();
  if (m.synchronized_bytes() > 0) {
    add("gradient bytes per step",
        absl::StrFormat(
            "%s, dense %s: %.1fx fewer", FormatBytes(m.synchronized_bytes()),
            FormatBytes(m.dense_synchronized_bytes()),
            Share(m.dense_synchronized_bytes(), m.synchronized_bytes())));
  }
  if (figures.peak_memory_bytes() > 0) {
    add("peak memory per process", FormatBytes(figures.peak_memory_bytes()));
  }
  if (!model_directory.empty()) {
    add("model", model_directory);
  } else if (!job.models().empty()) {
    add("model", absl::StrCat(job.models().rbegin()->name(), " (comera models ",
                              LastSegment(job.name()), " --download DIR)"));
  }
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row[0].size());
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    lines.push_back(absl::StrCat(
        row[0], std::string(width + 2 - row[0].size(), ' '), row[1]));
  }
  return lines;
}

}  // namespace comera::client
