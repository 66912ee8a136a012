// Checks the text and SVG plots of Pareto fronts.

#include "client/cli/output/pareto_plot.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "client/cli/live/sweep_view.h"
#include "client/cli/output/text_format.h"
#include "client/sweep_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<PlotPoint> Points() {
  return {{3.0, 1000, true, "a"},
          {2.0, 10000, true, "b <&\">"},
          {2.9, 9000, false, "c"}};
}

int Count(const std::vector<std::string>& lines, const std::string& what) {
  int count = 0;
  for (const std::string& line : lines) {
    for (size_t at = line.find(what); at != std::string::npos;
         at = line.find(what, at + what.size())) {
      ++count;
    }
  }
  return count;
}

TEST(ParetoPlotTest, Complaint20_ScatterFitsTheTerminalAndShowsAllPoints) {
  for (int width : {24, 40, 79, 200}) {
    const auto lines = Scatter(Points(), width, 10, false);
    ASSERT_EQ(lines.size(), 12u) << width;
    for (const std::string& line : lines) {
      EXPECT_LE(DisplayWidth(line), static_cast<size_t>(width)) << line;
    }
    EXPECT_EQ(Count(lines, "●"), 2) << width;
    EXPECT_EQ(Count(lines, "·"), 1) << width;
    EXPECT_EQ(Count(lines, "\x1b"), 0);
  }
  // The worst loss is on top, the best at the bottom; small sizes are on the
  // left.
  const auto lines = Scatter(Points(), 60, 10, false);
  EXPECT_THAT(lines[0], HasSubstr("3"));
  EXPECT_LT(lines[0].find("●"), lines[9].find("●"));
  EXPECT_THAT(lines[11], HasSubstr("10.0k parameters"));
}

TEST(ParetoPlotTest, ColourOnlyWhereItIsWanted) {
  EXPECT_EQ(Count(Scatter(Points(), 60, 10, true), "\x1b[32m●"), 2);
}

TEST(ParetoPlotTest, TargetsAreMarkedAndExplained) {
  std::vector<PlotPoint> points = Points();
  points.push_back({1.9, 500, false, "goal", true});
  const auto lines = Scatter(points, 40, 10, false);
  ASSERT_EQ(lines.size(), 13u);
  EXPECT_EQ(Count(lines, "✕"), 2) << "in the plot and in the legend";
  for (const std::string& line : lines) EXPECT_LE(DisplayWidth(line), 40u);
  EXPECT_THAT(Scatter(points, 40, 10, true).back(),
              HasSubstr("\x1b[33m✕\x1b[0m target"));
  EXPECT_THAT(ParetoSvg(points, "t"), HasSubstr("goal: target loss 1.900"));
}

TEST(ParetoPlotTest, NothingToShowIsNoLine) {
  EXPECT_THAT(Scatter({}, 80, 10, false), IsEmpty());
  EXPECT_THAT(Scatter(Points(), 23, 10, false), IsEmpty());
  EXPECT_THAT(Scatter({{std::nan(""), 10, true, ""}}, 80, 10, false),
              IsEmpty());
  // A single point, and sizes of zero, can be drawn.
  EXPECT_EQ(Count(Scatter({{2, 0, true, ""}}, 80, 10, false), "●"), 1);
}

TEST(ParetoPlotTest, SvgIsEscapedAndHasEveryPoint) {
  const std::string svg = ParetoSvg(Points(), "a <b> & \"c\"\n");
  EXPECT_THAT(svg, HasSubstr("a &lt;b&gt; &amp; &quot;c&quot;"));
  EXPECT_THAT(svg, HasSubstr("b &lt;&amp;&quot;&gt;: loss 2"));
  EXPECT_THAT(svg, Not(HasSubstr("b <&")));
  EXPECT_EQ(Count({svg}, "<circle"), 3);
  EXPECT_EQ(Count({svg}, "fill=\"#2a7\"><title>"), 2);
  EXPECT_THAT(ParetoSvg({}, ""), HasSubstr("</svg>"));
}

TEST(SweepViewTest, EventsBringTheSweepUpToDate) {
  v1::Sweep sweep;
  sweep.set_name("sweeps/a");
  sweep.set_state(v1::Sweep::ACTIVE);
  sweep.add_stages();
  sweep.add_runs()->set_label("seed=1");
  v1::SweepEvent event;
  event.mutable_run()->set_state(v1::SWEEP_RUN_SUCCEEDED);
  event.mutable_run()->set_outcome(v1::TARGET_MET);
  event.mutable_run()->set_label("seed=1");
  event.mutable_run()->mutable_progress()->set_step(5);
  event.mutable_run()->mutable_progress()->set_total_steps(10);
  ApplySweepEvent(event, &sweep);
  // The event names a run outside of this sweep.
  event.mutable_run()->set_index(7);
  ApplySweepEvent(event, &sweep);
  event.mutable_run()->set_index(-1);
  ApplySweepEvent(event, &sweep);
  event.mutable_front()->mutable_reference()->set_validation_loss(6);
  event.mutable_front()->mutable_reference()->set_size_parameters(1000);
  event.mutable_front()->set_hypervolume_ratio(0.25);
  ApplySweepEvent(event, &sweep);
  event.mutable_state_change()->set_state(v1::Sweep::SUCCEEDED);
  event.mutable_state_change()->set_outcome(v1::TARGET_MISSED);
  ApplySweepEvent(event, &sweep);
  const std::string text = SweepText(sweep, TableLayout());
  EXPECT_THAT(text, HasSubstr("SUCCEEDED TARGET_MISSED"));
  EXPECT_THAT(text, HasSubstr("seed=1"));
  EXPECT_THAT(text, HasSubstr("5/50%"));
  EXPECT_THAT(text, HasSubstr("hyper-volume 0.25"));
  EXPECT_EQ(ExitCodeOfSweep(sweep), 104);
}

}  // namespace
}  // namespace comera::client
