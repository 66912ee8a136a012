// Draws plots made of characters.
#ifndef COMERA_CLIENT_CLI_OUTPUT_PLOT_H_
#define COMERA_CLIENT_CLI_OUTPUT_PLOT_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/output/style.h"

namespace comera::client {

// A bar like "██████░░░░" that fills `share` of `width` columns.
std::string Bar(double share, int width);

// Values over steps. Beyond 1024 points every second one is dropped.
class PlotSeries {
 public:
  // A step that is smaller than the last (a restart) discards the points from
  // there on.
  void Add(double step, double value);
  const std::vector<std::pair<double, double>>& points() const {
    return points_;
  }

 private:
  std::vector<std::pair<double, double>> points_;
};

// Draws the values as "▇▅▃▂▁" in at most `width` columns, newest last; ""
// without values.
std::string Sparkline(const PlotSeries& series, int width);

struct LinePlot {
  // The line, drawn in dots, eight to a character.
  const PlotSeries* line = nullptr;
  // The target, drawn as a dashed line.
  const PlotSeries* marks = nullptr;
  // Drawn as a dashed line.
  std::optional<double> target;
};

// Draws the plot: `height` lines and an axis with labels, at most `width`
// columns. Empty if there are fewer than two points or no space (below 30
// columns).
std::vector<StyledLine> Draw(const LinePlot& plot, int width, int height);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_PLOT_H_
