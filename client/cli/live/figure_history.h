// Collects a job's figures over its steps and plots them.
#ifndef COMERA_CLIENT_CLI_LIVE_FIGURE_HISTORY_H_
#define COMERA_CLIENT_CLI_LIVE_FIGURE_HISTORY_H_

#include <vector>

#include "client/cli/output/plot.h"
#include "client/cli/output/style.h"
#include "comera/v1/progress.pb.h"

namespace comera::client {

// The history of loss and size, thinned to a bounded number of points. A value
// type.
class FigureHistory {
 public:
  void Apply(const v1::JobEvent& event);

  // Plots the training loss (smoothed) with validation losses and the target,
  // then the size with its target, in at most `height` lines of `width`
  // columns. Empty if there is nothing to show, or no space.
  std::vector<StyledLine> Plots(int width, int height) const;

 private:
  PlotSeries loss_;
  PlotSeries validation_;
  PlotSeries size_;
  double target_loss_ = 0;  // 0 for none
  int64_t target_size_parameters_ = 0;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_FIGURE_HISTORY_H_
