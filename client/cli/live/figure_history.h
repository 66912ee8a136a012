// How a job's figures went over its steps, and pictures of that.
#ifndef COMERA_CLIENT_CLI_LIVE_FIGURE_HISTORY_H_
#define COMERA_CLIENT_CLI_LIVE_FIGURE_HISTORY_H_

#include <vector>

#include "client/cli/output/plot.h"
#include "client/cli/output/style.h"
#include "comera/v1/progress.pb.h"

namespace comera::client {

// A value type of bounded size: events in.
class FigureHistory {
 public:
  void Apply(const v1::JobEvent& event);

  // Training loss (smoothed) with validation losses and the target, then the
  // size with its target: at most `height` lines of `width` columns, none where
  // there is nothing to show or no room.
  std::vector<StyledLine> Plots(int width, int height) const;

 private:
  PlotSeries loss_;
  PlotSeries validation_;
  PlotSeries size_;
  double target_loss_ = 0;  // 0: none
  int64_t target_size_parameters_ = 0;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_FIGURE_HISTORY_H_
