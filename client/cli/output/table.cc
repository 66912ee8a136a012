// Fits tables to a width by leaving out columns and cutting cells.

#include "client/cli/output/table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/output/style.h"
#include "client/cli/output/text_format.h"

namespace comera::client {
namespace {

constexpr int kGap = 2;
// The width below which cells are not cut.
constexpr int kLeastCut = 8;

int Width(const std::string& text) {
  return static_cast<int>(DisplayWidth(text));
}

// The table's columns still shown, by their index in the rows.
class Fitting {
 public:
  Fitting(const TableRows& rows, std::vector<size_t> shown, bool headers)
      : rows_(rows), shown_(std::move(shown)) {
    widths_.resize(rows.front().size());
    for (size_t r = headers ? 0 : 1; r < rows.size(); ++r) {
      for (size_t i = 0; i < std::min(rows[r].size(), widths_.size()); ++i) {
        widths_[i] = std::max(widths_[i], Width(rows[r][i]));
      }
    }
  }

  // Leaves out columns that do not fit even when cut, unless `may_drop` is
  // false because the user asked for them by name.
  void Fit(int width, bool may_drop,
           const std::vector<std::string>& dispensable) {
    std::vector<std::string> order = dispensable;
    for (size_t i = shown_.size(); i-- > 0;) {
      order.push_back(rows_.front()[shown_[i]]);
    }
    for (const std::string& header : order) {
      if (!may_drop || Total(/*cut=*/true) <= width) break;
      Drop(header);
    }
    while (Total(/*cut=*/false) > width) {
      int* widest = Widest(/*state=*/false);
      if (widest == nullptr) widest = Widest(/*state=*/true);
      if (widest == nullptr) break;
      --*widest;
    }
  }

  const std::vector<size_t>& shown() const { return shown_; }
  int width(size_t column) const { return widths_[column]; }
  bool IsState(size_t column) const {
    const std::string& header = rows_.front()[column];
    return header == "STATE" || header == "SERVICE";
  }

 private:
  // The width of the widest column that can be cut; null if there is none.
  // States are cut only when nothing else is left.
  int* Widest(bool state) {
    int* widest = nullptr;
    for (size_t column : shown_) {
      const int least = state && IsState(column) ? kLeastCut : Least(column);
      if (widths_[column] <= least) continue;
      if (widest == nullptr || widths_[column] > *widest) {
        widest = &widths_[column];
      }
    }
    return widest;
  }

  int Least(size_t column) const {
    if (column == 0 || IsState(column)) return widths_[column];
    return std::min(widths_[column],
                    std::max(kLeastCut, Width(rows_.front()[column])));
  }

  int Total(bool cut) const {
    int total = -kGap;
    for (size_t column : shown_) {
      total += kGap + (cut ? Least(column) : widths_[column]);
    }
    return total;
  }

  void Drop(const std::string& header) {
    shown_.erase(std::remove_if(shown_.begin(), shown_.end(),
                                [&](size_t column) {
                                  return column != 0 && !IsState(column) &&
                                         rows_.front()[column] == header;
                                }),
                 shown_.end());
  }

  const TableRows& rows_;
  std::vector<size_t> shown_;
  std::vector<int> widths_;
};

absl::StatusOr<std::vector<size_t>> Chosen(
    const std::vector<std::string>& headers,
    const std::vector<std::string>& columns) {
  std::vector<size_t> chosen;
  if (columns.empty()) {
    for (size_t i = 0; i < headers.size(); ++i) chosen.push_back(i);
    return chosen;
  }
  for (const std::string& name : columns) {
    const auto found =
        std::find(headers.begin(), headers.end(), absl::AsciiStrToUpper(name));
    if (found == headers.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no column `", Printable(name),
                       "`; there are: ", absl::StrJoin(headers, ", ")));
    }
    chosen.push_back(found - headers.begin());
  }
  return chosen;
}

}  // namespace

absl::StatusOr<std::string> FormatTable(
    const TableRows& rows, const TableLayout& layout,
    const std::vector<std::string>& dispensable) {
  if (rows.empty()) return std::string();
  const auto chosen = Chosen(rows.front(), layout.columns);
  if (!chosen.ok()) return chosen.status();
  Fitting fitting(rows, *chosen, layout.headers);
  if (layout.width > 0) {
    fitting.Fit(layout.width, layout.columns.empty(), dispensable);
  }
  std::string text;
  for (size_t r = layout.headers ? 0 : 1; r < rows.size(); ++r) {
    std::string line;
    // Spaces that are written only if text follows.
    int pending = 0;
    for (size_t column : fitting.shown()) {
      const std::string& whole =
          column < rows[r].size() ? rows[r][column] : std::string();
      const std::string cell = Shortened(whole, fitting.width(column));
      if (!cell.empty()) line.append(pending, ' ');
      const Tone tone = r == 0                    ? Tone::kStrong
                        : fitting.IsState(column) ? ToneOfState(whole)
                                                  : Tone::kPlain;
      line += Paint(tone, cell, layout.color);
      const int left = fitting.width(column) - Width(cell) + kGap;
      pending = cell.empty() ? pending + left : left;
    }
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace comera::client
