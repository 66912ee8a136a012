// Formats the runs and the front of sweeps, and updates them in place.

#include "client/cli/live/sweep_view.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/sweep_connection.h"
#include "proto/sweep/search_target.h"

namespace comera::client {
namespace {

constexpr absl::Duration kLineInterval = absl::Seconds(5);
constexpr size_t kMaxBlockLines = 30;

std::string StateName(v1::SweepRunState state, v1::JobState job) {
  const std::string name(
      absl::StripPrefix(v1::SweepRunState_Name(state), "SWEEP_RUN_"));
  if (state != v1::SWEEP_RUN_ACTIVE || job == v1::JOB_STATE_UNSPECIFIED) {
    return name;
  }
  return v1::JobState_Name(job);
}

std::string Steps(const v1::JobProgress& progress) {
  if (progress.total_steps() <= 0) return "-";
  return absl::StrFormat("%d/%.0f%%", progress.step(),
                         100.0 * static_cast<double>(progress.step()) /
                             static_cast<double>(progress.total_steps()));
}

std::string Loss(const v1::JobProgress& progress) {
  if (progress.has_validation_loss()) {
    return FormatFigure(progress.validation_loss());
  }
  return progress.loss() > 0 ? FormatFigure(progress.loss()) : "-";
}

std::vector<std::string> Row(const std::string& index, const std::string& label,
                             const std::string& state, const std::string& job,
                             const v1::JobProgress& progress,
                             const std::string& reason) {
  return {index,
          label.empty() ? "-" : Printable(label),
          state,
          Steps(progress),
          Loss(progress),
          progress.size_parameters() > 0
              ? FormatShort(static_cast<double>(progress.size_parameters()))
              : "-",
          job.empty() ? "-" : LastSegment(job),
          Printable(reason)};
}

std::string Outcome(const v1::SweepRun& run) {
  return run.outcome() == v1::OUTCOME_UNSPECIFIED
             ? ""
             : absl::StrCat(" ", v1::Outcome_Name(run.outcome()));
}

}  // namespace

std::string SweepStateText(const v1::Sweep& sweep) {
  const std::string state = v1::Sweep::State_Name(sweep.state());
  return sweep.outcome() == v1::OUTCOME_UNSPECIFIED
             ? state
             : absl::StrCat(state, " ", v1::Outcome_Name(sweep.outcome()));
}

std::string SearchLine(const v1::Sweep& sweep) {
  if (!sweep.has_search()) return "";
  const v1::SearchState& search = sweep.search();
  const bool steps = sweep.spec().job().budget().has_steps();
  return absl::StrFormat("round %d of %d, %.0f of %.0f %s spent",
                         search.round(), search.rounds(), search.spent(),
                         search.budget(), steps ? "steps" : "s");
}

std::string RunTable(const v1::Sweep& sweep, const TableLayout& layout) {
  std::vector<std::vector<std::string>> rows = {
      {"RUN", "WHAT", "STATE", "STEP/%", "LOSS", "SIZE", "JOB", "REASON"}};
  // A search by another metric shows that beside the loss.
  const SearchTarget target =
      SearchTargetOf(sweep.spec().job().objective().late());
  const bool has_metric =
      sweep.has_search() && target.metric != v1::LateStage::kTargetLoss;
  constexpr size_t kMetricColumn = 5;
  if (has_metric) {
    rows[0].insert(rows[0].begin() + kMetricColumn,
                   absl::AsciiStrToUpper(target.Name()));
  }
  for (const v1::SweepStage& stage : sweep.stages()) {
    const auto runs = std::count_if(
        sweep.runs().begin(), sweep.runs().end(),
        [&](const auto& run) { return run.stage() == stage.index(); });
    rows.push_back(Row(absl::StrCat("s", stage.index()),
                       absl::StrCat("early stage of ", runs, " runs"),
                       StateName(stage.state(), stage.job_state()), stage.job(),
                       stage.progress(), stage.reason()));
    if (has_metric)
      rows.back().insert(rows.back().begin() + kMetricColumn, "-");
  }
  for (const v1::SweepRun& run : sweep.runs()) {
    const bool chosen = sweep.search().has_chosen_run() &&
                        sweep.search().chosen_run() == run.index();
    rows.push_back(Row(absl::StrCat(run.index(), chosen ? "*" : ""),
                       run.label(),
                       StateName(run.state(), run.job_state()) + Outcome(run),
                       run.job(), run.progress(), run.reason()));
    if (has_metric) {
      rows.back().insert(rows.back().begin() + kMetricColumn,
                         run.has_quality() ? FormatFigure(run.quality()) : "-");
    }
  }
  return FormatTable(rows, layout, {"JOB", "REASON", "STEP/%"}).value_or("");
}

std::string SweepText(const v1::Sweep& sweep, const TableLayout& layout) {
  std::string text = absl::StrCat(sweep.name(), "  ", SweepStateText(sweep),
                                  "  ", Printable(sweep.reason()), "\n");
  if (sweep.has_search()) absl::StrAppend(&text, SearchLine(sweep), "\n");
  absl::StrAppend(&text, "\n", RunTable(sweep, layout));
  if (sweep.front().points_size() > 0) {
    absl::StrAppend(&text, "\n", FrontTable(sweep.front(), &sweep, layout));
  }
  const std::string line = HypervolumeLine(sweep.front());
  if (!line.empty()) absl::StrAppend(&text, line, "\n");
  return text;
}

int ExitCodeOfSweep(const v1::Sweep& sweep) {
  switch (sweep.state()) {
    case v1::Sweep::SUCCEEDED:
      return sweep.outcome() == v1::TARGET_MISSED ? kExitTargetMissed : kExitOk;
    case v1::Sweep::FAILED:
      return kExitJobFailed;
    case v1::Sweep::CANCELLED:
      return kExitJobCancelled;
    default:
      return kExitUnfinished;
  }
}

void SweepPrinter::OnSweep(const v1::Sweep& sweep) {
  sweep_ = sweep;
  if (!is_table()) return session_.Print(sweep, /*one_line=*/true);
  if (is_live()) Draw();
}

void SweepPrinter::OnEvent(const v1::SweepEvent& event) {
  ApplySweepEvent(event, &sweep_);
  if (!is_table()) return session_.Print(event, /*one_line=*/true);
  if (is_live()) return Draw();
  Line(event);
}

void SweepPrinter::Line(const v1::SweepEvent& event) {
  std::ostream& out = *session_.env.out;
  const auto due = [&](int key, v1::SweepRunState state) {
    const absl::Time now = ToTime(event.time());
    if (shown_.count(key) > 0 && shown_[key] == state &&
        now - shown_time_[key] < kLineInterval) {
      return false;
    }
    shown_[key] = state;
    shown_time_[key] = now;
    return true;
  };
  if (event.has_run()) {
    const v1::SweepRun& run = event.run();
    if (!due(run.index(), run.state())) return;
    out << "run " << run.index() << " (" << Printable(run.label()) << ") "
        << StateName(run.state(), run.job_state()) << Outcome(run) << "  step "
        << Steps(run.progress()) << "  loss " << Loss(run.progress())
        << "  size " << FormatCount(run.progress().size_parameters());
    if (!run.reason().empty()) out << "  " << Printable(run.reason());
    out << std::endl;
  } else if (event.has_stage()) {
    const v1::SweepStage& stage = event.stage();
    if (!due(-1 - stage.index(), stage.state())) return;
    out << "early stage " << stage.index() << " "
        << StateName(stage.state(), stage.job_state()) << "  step "
        << Steps(stage.progress()) << "  loss " << Loss(stage.progress());
    if (!stage.reason().empty()) out << "  " << Printable(stage.reason());
    out << std::endl;
  } else if (event.has_front()) {
    out << "front: " << event.front().points_size() << " points";
    const std::string line = HypervolumeLine(event.front());
    if (!line.empty()) out << ", " << line;
    out << std::endl;
  } else if (event.has_search()) {
    if (event.search().round() == shown_round_) return;
    shown_round_ = event.search().round();
    out << SearchLine(sweep_) << std::endl;
  } else if (event.has_state_change()) {
    out << SweepStateText(sweep_) << "  " << Printable(sweep_.reason())
        << std::endl;
  }
}

void SweepPrinter::Draw() {
  TableLayout layout = session_.Layout();
  // One column is left free, because a full line would wrap.
  layout.width = session_.env.width - 1;
  std::vector<std::string> lines = {absl::StrCat(
      sweep_.name(), "  ", SweepStateText(sweep_), "  ",
      sweep_.has_search()
          ? SearchLine(sweep_)
          : absl::StrCat(sweep_.front().points_size(), " points on the front  ",
                         HypervolumeLine(sweep_.front())))};
  for (absl::string_view line :
       absl::StrSplit(RunTable(sweep_, layout), '\n', absl::SkipEmpty())) {
    lines.push_back(std::string(line));
  }
  if (lines.size() > kMaxBlockLines) {
    const size_t more = lines.size() - kMaxBlockLines;
    lines.resize(kMaxBlockLines);
    lines.push_back(absl::StrCat("... and ", more, " more"));
  }
  std::string text;
  if (block_lines_ > 0) {
    text = absl::StrCat("\x1b[", block_lines_, "A\x1b[J");
  }
  lines[0] = Shortened(lines[0], layout.width);
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  *session_.env.out << text << std::flush;
  block_lines_ = static_cast<int>(lines.size());
}

void SweepPrinter::Finish(const v1::Sweep& sweep) {
  sweep_ = sweep;
  if (!is_table()) return;
  if (is_live()) {
    Draw();
    block_lines_ = 0;
    *session_.env.out << "\n"
                      << FrontTable(sweep.front(), &sweep, session_.Layout());
    const std::string line = HypervolumeLine(sweep.front());
    if (!line.empty()) *session_.env.out << line << "\n";
    *session_.env.out << "\n"
                      << SweepStateText(sweep) << "  "
                      << Printable(sweep.reason()) << "\n";
  } else {
    *session_.env.out << "\n" << SweepText(sweep, session_.Layout());
  }
  *session_.env.out << std::flush;
}

}  // namespace comera::client
