// Plots made of characters.
#ifndef COMERA_CLIENT_CLI_OUTPUT_PLOT_H_
#define COMERA_CLIENT_CLI_OUTPUT_PLOT_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/output/style.h"

namespace comera::client {

// "██████░░░░": `share` of `width` columns.
std::string Bar(double share, int width);

// Values over steps, bounded: beyond 1024 points every second one goes.
class PlotSeries {
 public:
  // Steps that go back (a restart) take what came after them away.
  void Add(double step, double value);
  const std::vector<std::pair<double, double>>& points() const {
    return points_;
  }

 private:
  std::vector<std::pair<double, double>> points_;
};

// "▇▅▃▂▁": the values in `width` columns or fewer, the last one last; "": none.
std::string Sparkline(const PlotSeries& series, int width);

struct LinePlot {
  // Drawn as dots, eight to a character.
  const PlotSeries* line = nullptr;
  // Drawn over it as ●; may be null.
  const PlotSeries* marks = nullptr;
  // Drawn as a dashed line.
  std::optional<double> target;
};

// An axis with labels, `height` lines of the plot, `width` columns at most; no
// line where there are fewer than two points or no room (below 30 columns).
std::vector<StyledLine> Draw(const LinePlot& plot, int width, int height);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_PLOT_H_
