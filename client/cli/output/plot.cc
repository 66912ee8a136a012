// Draws bars, sparklines and braille line plots.

#include "client/cli/output/plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "client/cli/output/text_format.h"

namespace comera::client {
namespace {

constexpr size_t kMostPoints = 1024;
constexpr int kAxis = 9;  // "  3.217 ┤"
constexpr int kLeastWidth = 30;

// The braille character with these of its eight dots (U+2800 + bits).
std::string Braille(int bits) {
  std::string text = "\xE2\xA0\x80";
  text[1] = static_cast<char>(0xA0 + (bits >> 6));
  text[2] = static_cast<char>(0x80 + (bits & 0x3F));
  return text;
}

// The bit of the dot in column 0 or 1 and row 0 to 3 of a character.
int Dot(int column, int row) {
  static constexpr int kDots[2][4] = {{0x01, 0x02, 0x04, 0x40},
                                      {0x08, 0x10, 0x20, 0x80}};
  return kDots[column][row];
}

struct Range {
  double low = INFINITY;
  double high = -INFINITY;
  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Maps a value to [0, 1], or to the middle if all values are equal. It works
  // on halves, because the difference of reported values may overflow to
  // infinity.
  double At(double value) const {
    const double span = high / 2 - low / 2;
    return span > 0 ? (value / 2 - low / 2) / span : 0.5;
  }
};

std::vector<std::pair<double, double>> Finite(const PlotSeries* series) {
  std::vector<std::pair<double, double>> points;
  if (series == nullptr) return points;
  for (const auto& point : series->points()) {
    if (std::isfinite(point.first) && std::isfinite(point.second)) {
      points.push_back(point);
    }
  }
  return points;
}

}  // namespace

std::string Bar(double share, int width) {
  share = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  const int filled = static_cast<int>(std::lround(share * width));
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
  return bar;
}

void PlotSeries::Add(double step, double value) {
  while (!points_.empty() && points_.back().first >= step) points_.pop_back();
  if (points_.size() >= kMostPoints) {
    for (size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
    points_.resize((points_.size() + 1) / 2);
  }
  points_.emplace_back(step, value);
}

std::string Sparkline(const PlotSeries& series, int width) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄",
                                            "▅", "▆", "▇", "█"};
  const auto points = Finite(&series);
  if (points.empty() || width < 1) return "";
  Range range;
  for (const auto& point : points) range.Add(point.second);
  const int columns = std::min<int>(width, static_cast<int>(points.size()));
  std::string line;
  for (int i = 0; i < columns; ++i) {
    // The last point of each column's share.
    const size_t index = (i + 1) * points.size() / columns - 1;
    line += kBlocks[std::lround(7 * range.At(points[index].second))];
  }
  return line;
}

std::vector<StyledLine> Draw(const LinePlot& plot, int width, int height) {
  const auto line = Finite(plot.line);
  const auto marks = Finite(plot.marks);
  if (line.size() < 2 || width < kLeastWidth || height < 2) return {};
  Range x, y;
  for (const auto* points : {&line, &marks}) {
    for (const auto& point : *points) {
      x.Add(point.first);
      y.Add(point.second);
    }
  }
  if (plot.target && std::isfinite(*plot.target)) y.Add(*plot.target);
  const int columns = width - kAxis;
  const int dots_x = 2 * columns, dots_y = 4 * height;
  std::vector<std::vector<int>> dots(height, std::vector<int>(columns, 0));
  const auto column_of = [&](double step) {
    return static_cast<int>(std::lround(x.At(step) * (dots_x - 1)));
  };
  const auto row_of = [&](double value) {
    return static_cast<int>(std::lround((1 - y.At(value)) * (dots_y - 1)));
  };
  for (size_t i = 0; i < line.size(); ++i) {
    // Starts at the point before, so that the line has no gaps.
    const int from = column_of(line[i > 0 ? i - 1 : 0].first);
    const int to = column_of(line[i].first);
    const double before = line[i > 0 ? i - 1 : 0].second;
    for (int column = from; column <= to; ++column) {
      const double share =
          to > from ? static_cast<double>(column - from) / (to - from) : 1;
      const int row = row_of(before + share * (line[i].second - before));
      dots[row / 4][column / 2] |= Dot(column % 2, row % 4);
    }
  }
  std::vector<std::vector<bool>> marked(height,
                                        std::vector<bool>(columns, false));
  for (const auto& point : marks) {
    marked[row_of(point.second) / 4][column_of(point.first) / 2] = true;
  }
  const int target_row = plot.target ? row_of(*plot.target) / 4 : -1;
  std::vector<StyledLine> lines;
  for (int row = 0; row < height; ++row) {
    std::string label;
    if (row == 0) label = FormatFigure(y.high);
    if (row == height - 1 && y.high > y.low) label = FormatFigure(y.low);
    if (row == target_row) label = FormatFigure(*plot.target);
    StyledLine styled = {
        {absl::StrFormat("%7s %s", label, row == target_row ? "╪" : "┤"),
         row == target_row ? Tone::kWarning : Tone::kFaint}};
    const auto add = [&](const char* text, Tone tone) {
      if (styled.back().tone == tone) {
        styled.back().text += text;
      } else {
        styled.push_back({text, tone});
      }
    };
    for (int column = 0; column < columns; ++column) {
      if (marked[row][column]) {
        add("●", Tone::kGood);
      } else if (dots[row][column] != 0) {
        add(Braille(dots[row][column]).c_str(), Tone::kActive);
      } else if (row == target_row) {
        add("┄", Tone::kWarning);
      } else {
        add(" ", Tone::kPlain);
      }
    }
    lines.push_back(std::move(styled));
  }
  return lines;
}

}  // namespace comera::client
