// Thins a column of figures to what a plot can show.
#include "server/view/series_points.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace comera::server {
namespace {

// Cuts [first, last] into `count` equal stretches; asked in ascending order.
class Stretches {
 public:
  Stretches(int64_t first, int64_t last, size_t count)
      : first_(first),
        width_(static_cast<double>(last - first + 1) /
               static_cast<double>(count)) {}

  // Whether the sequence lies beyond the stretch of the one asked for last.
  bool Leaves(int64_t sequence) {
    if (static_cast<double>(sequence - first_) < end_) return false;
    end_ = (std::floor(static_cast<double>(sequence - first_) / width_) + 1) *
           width_;
    return true;
  }

 private:
  const int64_t first_;
  const double width_;
  double end_ = 0;
};

std::vector<size_t> From(size_t begin, size_t end) {
  std::vector<size_t> all(end - begin);
  std::iota(all.begin(), all.end(), begin);
  return all;
}

}  // namespace

std::vector<size_t> PickPoints(const SeriesColumn& column, size_t begin,
                               size_t max_points) {
  const std::vector<double>& values = *column.values;
  const size_t end = values.size();
  if (begin >= end) return {};
  if (end - begin <= max_points) return From(begin, end);
  if (max_points == 1) return {end - 1};
  std::vector<size_t> picked = {begin};
  const size_t count = (max_points - 2) / 2;
  if (count > 0) {
    Stretches stretches(column.sequence(begin + 1), column.sequence(end - 2),
                        count);
    size_t low = begin + 1;
    size_t high = begin + 1;
    const auto take = [&picked, &low, &high] {
      picked.push_back(std::min(low, high));
      if (low != high) picked.push_back(std::max(low, high));
    };
    for (size_t i = begin + 1; i + 1 < end; ++i) {
      if (stretches.Leaves(column.sequence(i)) && i != begin + 1) {
        take();
        low = high = i;
      } else if (std::isnan(values[low])) {
        low = high = i;
      } else if (values[i] < values[low]) {
        low = i;
      } else if (values[i] > values[high]) {
        high = i;
      }
    }
    take();
  }
  picked.push_back(end - 1);
  return picked;
}

std::vector<size_t> PickEvenly(const std::vector<int64_t>& sequences,
                               size_t begin, size_t max_points) {
  const size_t end = sequences.size();
  if (begin >= end) return {};
  if (end - begin <= max_points) return From(begin, end);
  std::vector<size_t> picked;
  if (max_points > 1) {
    Stretches stretches(sequences[begin], sequences[end - 2], max_points - 1);
    for (size_t i = begin; i + 1 < end; ++i) {
      if (stretches.Leaves(sequences[i])) picked.push_back(i);
    }
  }
  picked.push_back(end - 1);
  return picked;
}

}  // namespace comera::server
