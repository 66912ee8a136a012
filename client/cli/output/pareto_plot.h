// Plots Pareto fronts as text and as SVG.
#ifndef COMERA_CLIENT_CLI_OUTPUT_PARETO_PLOT_H_
#define COMERA_CLIENT_CLI_OUTPUT_PARETO_PLOT_H_

#include <string>
#include <vector>

namespace comera::client {

// A model, or a target, in the plot.
struct PlotPoint {
  double loss = 0;
  double size = 0;  // parameters
  bool on_front = false;
  std::string label;
  // Whether this is a target rather than a model.
  bool target = false;
};

// Plots validation loss (up) against size (right, logarithmic): points on the
// front as ●, targets as ✕, others as ·, and a legend if there are targets. At
// most `width` columns, axes included. Empty if there is nothing to show or no
// space (below 24 columns).
std::vector<std::string> Scatter(const std::vector<PlotPoint>& points,
                                 int width, int height, bool color);

// Draws the same as an SVG document, with the front joined by a staircase. Text
// is escaped.
std::string ParetoSvg(const std::vector<PlotPoint>& points,
                      const std::string& title);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_PARETO_PLOT_H_
