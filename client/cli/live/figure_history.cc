// Records loss and size from events and draws their plots.

#include "client/cli/live/figure_history.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"

namespace comera::client {
namespace {

constexpr int kMostPlotLines = 8;
constexpr int kLeastPlotLines = 3;
// Wider plots are no easier to read.
constexpr int kMostPlotWidth = 100;
constexpr int kSparkline = 40;

}  // namespace

void FigureHistory::Apply(const v1::JobEvent& event) {
  if (!event.has_metrics()) return;
  const v1::StepMetrics& m = event.metrics();
  const double step = static_cast<double>(m.step());
  loss_.Add(step, m.smoothed_loss() > 0 ? m.smoothed_loss() : m.loss());
  if (m.has_validation_loss()) validation_.Add(step, m.validation_loss());
  if (m.size_parameters() > 0) {
    size_.Add(step, static_cast<double>(m.size_parameters()));
  }
  target_loss_ = m.target_loss();
  target_size_parameters_ = m.target_size_parameters();
}

std::vector<StyledLine> FigureHistory::Plots(int width, int height) const {
  std::vector<StyledLine> lines;
  // Leaves space for the legend and the line about size.
  const int room = std::min(kMostPlotLines, height - 2);
  if (room < kLeastPlotLines) return lines;
  LinePlot plot;
  plot.line = &loss_;
  plot.marks = &validation_;
  if (target_loss_ > 0) plot.target = target_loss_;
  std::vector<StyledLine> drawn =
      Draw(plot, std::min(width, kMostPlotWidth), room);
  if (drawn.empty()) return lines;
  StyledLine legend = {{"loss     ", Tone::kStrong},
                       {"⣿ training", Tone::kActive}};
  if (!validation_.points().empty()) {
    legend.push_back({"  ● validation", Tone::kGood});
  }
  if (target_loss_ > 0) {
    legend.push_back({absl::StrCat("  ╪ target ", FormatFigure(target_loss_)),
                      Tone::kWarning});
  }
  lines.push_back(legend);
  for (StyledLine& line : drawn) lines.push_back(std::move(line));
  if (size_.points().size() > 1) {
    const double now = size_.points().back().second;
    StyledLine size = {
        {"size     ", Tone::kStrong},
        {Sparkline(size_, std::min(kSparkline, width / 2)), Tone::kActive},
        {absl::StrCat(" ", FormatBytes(4 * now)), Tone::kPlain}};
    if (target_size_parameters_ > 0) {
      const double target = static_cast<double>(target_size_parameters_);
      size.push_back({absl::StrCat(" → ", FormatBytes(4 * target)),
                      now <= target ? Tone::kGood : Tone::kWarning});
      size.push_back({now <= target ? " (met)" : "", Tone::kGood});
    }
    lines.push_back(size);
  }
  for (StyledLine& line : lines) line = CutLine(line, width);
  return lines;
}

}  // namespace comera::client
