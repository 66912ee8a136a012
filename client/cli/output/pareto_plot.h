// Pictures of a Pareto front.
#ifndef COMERA_CLIENT_CLI_OUTPUT_PARETO_PLOT_H_
#define COMERA_CLIENT_CLI_OUTPUT_PARETO_PLOT_H_

#include <string>
#include <vector>

namespace comera::client {

struct PlotPoint {
  double loss = 0;
  double size = 0;  // parameters
  bool on_front = false;
  std::string label;
  // Not a model but what one was asked to become.
  bool target = false;
};

// Validation loss (up) against size (right, logarithmic), points on the front
// as ●, targets as ✕, others as ·; a legend if there are targets. `width`
// columns at most, axes included; no line where there is nothing to show or no
// room (below 24 columns).
std::vector<std::string> Scatter(const std::vector<PlotPoint>& points,
                                 int width, int height, bool color);

// The same as an SVG document, the front joined by a staircase. Text is
// escaped.
std::string ParetoSvg(const std::vector<PlotPoint>& points,
                      const std::string& title);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_PARETO_PLOT_H_
