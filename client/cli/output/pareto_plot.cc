// Draws Pareto fronts as scatter plots in text and SVG.

#include "client/cli/output/pareto_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output/style.h"
#include "client/cli/output/text_format.h"

namespace comera::client {
namespace {

constexpr int kAxisColumns = 9;  // "  3.217 ┤"
constexpr int kLeastWidth = 24;

// Maps values to [0, 1]; a single value lies in the middle.
struct Scale {
  double low = 0;
  double high = 0;

  double At(double value) const {
    return high > low ? (value - low) / (high - low) : 0.5;
  }
};

double LogSize(const PlotPoint& point) {
  return std::log10(std::max(1.0, point.size));
}

std::vector<PlotPoint> Finite(const std::vector<PlotPoint>& points) {
  std::vector<PlotPoint> kept;
  for (const PlotPoint& point : points) {
    if (std::isfinite(point.loss) && std::isfinite(point.size)) {
      kept.push_back(point);
    }
  }
  return kept;
}

template <typename Value>
Scale ScaleOf(const std::vector<PlotPoint>& points, const Value& value) {
  Scale scale{value(points.front()), value(points.front())};
  for (const PlotPoint& point : points) {
    scale.low = std::min(scale.low, value(point));
    scale.high = std::max(scale.high, value(point));
  }
  return scale;
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : Printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> Scatter(const std::vector<PlotPoint>& all, int width,
                                 int height, bool color) {
  const std::vector<PlotPoint> points = Finite(all);
  if (points.empty() || width < kLeastWidth || height < 2) return {};
  const int columns = width - kAxisColumns;
  const Scale x = ScaleOf(points, LogSize);
  const Scale y = ScaleOf(points, [](const PlotPoint& p) { return p.loss; });
  // The content of each cell: 0 empty, 1 a point, 2 a target, 3 a point on the
  // front.
  std::vector<std::vector<int>> cells(height, std::vector<int>(columns, 0));
  for (const PlotPoint& point : points) {
    const int column =
        static_cast<int>(std::lround(x.At(LogSize(point)) * (columns - 1)));
    const int row =
        static_cast<int>(std::lround((1 - y.At(point.loss)) * (height - 1)));
    int& cell = cells[row][column];
    cell = std::max(cell, point.on_front ? 3 : point.target ? 2 : 1);
  }
  std::vector<std::string> lines;
  for (int row = 0; row < height; ++row) {
    const bool labelled = row == 0 || row == height - 1 || row == height / 2;
    const double value =
        y.high - (y.high - y.low) * row / static_cast<double>(height - 1);
    std::string line =
        labelled ? absl::StrFormat("%7s ┤", y.high > y.low || row == height / 2
                                                ? FormatFigure(value)
                                                : "")
                 : "        │";
    for (int cell : cells[row]) {
      line += cell == 3   ? Paint(Tone::kGood, "●", color)
              : cell == 2 ? Paint(Tone::kWarning, "✕", color)
              : cell == 1 ? "·"
                          : " ";
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    lines.push_back(std::move(line));
  }
  std::string axis = "        └";
  for (int i = 0; i < columns; ++i) axis += "─";
  lines.push_back(std::move(axis));
  const std::string low = FormatShort(std::pow(10.0, x.low));
  const std::string high =
      absl::StrCat(FormatShort(std::pow(10.0, x.high)), " parameters");
  const int gap = columns - static_cast<int>(low.size() + high.size());
  lines.push_back(absl::StrCat(std::string(kAxisColumns, ' '),
                               gap > 0 ? low + std::string(gap, ' ') : "",
                               high.substr(0, columns)));
  if (std::any_of(points.begin(), points.end(),
                  [](const PlotPoint& point) { return point.target; })) {
    lines.push_back(Paint(CutLine({{std::string(kAxisColumns, ' ')},
                                   {"●", Tone::kGood},
                                   {" front  · other  "},
                                   {"✕", Tone::kWarning},
                                   {" target"}},
                                  width),
                          color));
  }
  return lines;
}

std::string ParetoSvg(const std::vector<PlotPoint>& all,
                      const std::string& title) {
  constexpr int kWidth = 720, kHeight = 440, kLeft = 70, kTop = 40;
  constexpr int kRight = 690, kBottom = 380;
  const std::vector<PlotPoint> points = Finite(all);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
      "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"%d\" y=\"24\" font-size=\"15\">%s</text>\n"
      "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#444\"/>\n"
      "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">parameters (logarithmic)"
      "</text>\n"
      "<text transform=\"translate(18,%d) rotate(-90)\" "
      "text-anchor=\"middle\">validation loss (nats)</text>\n",
      kWidth, kHeight, kWidth, kHeight, kLeft, Escaped(title), kLeft, kTop,
      kBottom, kRight, (kLeft + kRight) / 2, kBottom + 45,
      (kTop + kBottom) / 2);
  if (points.empty()) return svg + "</svg>\n";
  const Scale x = ScaleOf(points, LogSize);
  const Scale y = ScaleOf(points, [](const PlotPoint& p) { return p.loss; });
  const auto px = [&](double log_size) {
    return kLeft + 15 + x.At(log_size) * (kRight - kLeft - 30);
  };
  const auto py = [&](double loss) {
    return kBottom - 15 - y.At(loss) * (kBottom - kTop - 30);
  };
  for (int i = 0; i <= 4; ++i) {
    const double log_size = x.low + (x.high - x.low) * i / 4;
    const double loss = y.low + (y.high - y.low) * i / 4;
    absl::StrAppendFormat(
        &svg,
        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#666\">%s"
        "</text>\n<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" "
        "fill=\"#666\">%s</text>\n",
        px(log_size), kBottom + 20, FormatShort(std::pow(10.0, log_size)),
        kLeft - 6, py(loss) + 4, FormatFigure(loss));
    if (x.high <= x.low && y.high <= y.low) break;
  }
  std::vector<PlotPoint> front;
  for (const PlotPoint& point : points) {
    if (point.on_front) front.push_back(point);
  }
  std::sort(front.begin(), front.end(),
            [](const auto& a, const auto& b) { return a.size < b.size; });
  std::string path;
  for (const PlotPoint& point : front) {
    absl::StrAppendFormat(&path, path.empty() ? "M%.1f %.1f" : "H%.1fV%.1f",
                          px(LogSize(point)), py(point.loss));
  }
  if (!path.empty()) {
    absl::StrAppend(&svg, "<path d=\"", path,
                    "\" fill=\"none\" stroke=\"#2a7\" "
                    "stroke-width=\"1.5\"/>\n");
  }
  for (const PlotPoint& point : points) {
    if (point.target) {
      absl::StrAppendFormat(
          &svg,
          "<path d=\"M%.1f %.1fl8 8m0 -8l-8 8\" stroke=\"#c60\" "
          "stroke-width=\"2\"><title>%s: target loss %s, %s "
          "parameters</title></path>\n",
          px(LogSize(point)) - 4, py(point.loss) - 4, Escaped(point.label),
          FormatFigure(point.loss),
          FormatCount(static_cast<int64_t>(point.size)));
      continue;
    }
    absl::StrAppendFormat(
        &svg,
        "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"><title>%s: loss "
        "%s, %s parameters</title></circle>\n",
        px(LogSize(point)), py(point.loss), point.on_front ? 5 : 3,
        point.on_front ? "#2a7" : "#bbb", Escaped(point.label),
        FormatFigure(point.loss),
        FormatCount(static_cast<int64_t>(point.size)));
  }
  return svg + "</svg>\n";
}

}  // namespace comera::client
