// Checks bars, sparklines and line plots character by character.

#include "client/cli/output/plot.h"

#include <cmath>

#include "client/cli/live/figure_history.h"
#include "client/cli/output/text_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

PlotSeries Series(const std::vector<double>& values) {
  PlotSeries series;
  for (size_t i = 0; i < values.size(); ++i) {
    series.Add(static_cast<double>(i), values[i]);
  }
  return series;
}

TEST(PlotSeries, StaysBoundedAndKeepsTheEnds) {
  PlotSeries series;
  for (int i = 0; i < 100000; ++i) series.Add(i, i);
  EXPECT_LE(series.points().size(), 1024u);
  EXPECT_THAT(series.points().front(), Pair(0, 0));
  EXPECT_THAT(series.points().back(), Pair(99999, 99999));
}

TEST(PlotSeries, ARestartTakesBackWhatItRepeats) {
  PlotSeries series = Series({5, 4, 3, 2});
  series.Add(2, 3.5);
  EXPECT_THAT(series.points(),
              testing::ElementsAre(Pair(0, 5), Pair(1, 4), Pair(2, 3.5)));
}

TEST(Sparkline, EndsWithTheNewestValue) {
  EXPECT_EQ(Sparkline(Series({8, 7, 6, 5, 4, 3, 2, 1}), 20), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(DisplayWidth(Sparkline(Series(std::vector<double>(500, 1)), 20)),
            20u);
  EXPECT_EQ(Sparkline(Series({}), 20), "");
  EXPECT_EQ(Sparkline(Series({1, NAN, 3}), 20), "▁█");
  EXPECT_EQ(Sparkline(Series({-1.7e308, 1.7e308}), 20), "▁█");
}

TEST(Draw, ALineThatFallsWithItsTarget) {
  const PlotSeries line = Series({4, 3, 2, 1});
  const PlotSeries marks = Series({4, 2});
  LinePlot plot;
  plot.line = &line;
  plot.marks = &marks;
  plot.target = 2;
  const auto lines = Draw(plot, 40, 4);
  ASSERT_EQ(lines.size(), 4u);
  std::string text;
  for (const StyledLine& one : lines) {
    EXPECT_LE(DisplayWidth(PlainText(one)), 40u);
    text += PlainText(one) + "\n";
  }
  EXPECT_THAT(PlainText(lines[0]), testing::StartsWith("  4.000 ┤"));
  EXPECT_THAT(PlainText(lines[3]), testing::StartsWith("  1.000 ┤"));
  EXPECT_THAT(text, HasSubstr("  2.000 ╪"));
  EXPECT_THAT(text, HasSubstr("┄"));
  EXPECT_THAT(text, HasSubstr("●"));
}

TEST(Draw, OddValuesAreNoHarm) {
  LinePlot plot;
  EXPECT_THAT(Draw(plot, 80, 8), IsEmpty());
  const PlotSeries one = Series({1});
  plot.line = &one;
  EXPECT_THAT(Draw(plot, 80, 8), IsEmpty());
  const PlotSeries odd = Series({NAN, INFINITY, 1, 1, -INFINITY});
  plot.line = &odd;
  plot.target = NAN;
  EXPECT_EQ(Draw(plot, 80, 8).size(), 8u) << "a level line";
  EXPECT_THAT(Draw(plot, 29, 8), IsEmpty());
  EXPECT_THAT(Draw(plot, 80, 1), IsEmpty());
}

TEST(FigureHistory, ShowsLossSizeAndTargetsWithinItsRoom) {
  FigureHistory history;
  EXPECT_THAT(history.Plots(80, 24), IsEmpty());
  for (int step = 1; step <= 40; ++step) {
    v1::JobEvent event;
    v1::StepMetrics* metrics = event.mutable_metrics();
    metrics->set_step(step);
    metrics->set_loss(8 - 0.1 * step);
    metrics->set_size_parameters(1000 - 10 * step);
    metrics->set_target_loss(3.5);
    metrics->set_target_size_parameters(700);
    if (step % 10 == 0) metrics->set_validation_loss(8.2 - 0.1 * step);
    history.Apply(event);
  }
  for (int width = 30; width < 120; width += 7) {
    for (int height = 0; height < 20; ++height) {
      const auto lines = history.Plots(width, height);
      EXPECT_LE(lines.size(), static_cast<size_t>(height));
      for (const StyledLine& line : lines) {
        EXPECT_LE(DisplayWidth(PlainText(line)), static_cast<size_t>(width));
      }
    }
  }
  const auto lines = history.Plots(80, 24);
  EXPECT_THAT(PlainText(lines[0]), HasSubstr("╪ target 3.500"));
  EXPECT_THAT(PlainText(lines.back()), HasSubstr("→ 2.73 KiB (met)"));
}

}  // namespace
}  // namespace comera::client
