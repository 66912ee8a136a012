#ifndef COMERA_SERVER_VIEW_SERIES_POINTS_H_
#define COMERA_SERVER_VIEW_SERIES_POINTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace comera::server {

// Some values of a column: those in `rows` of the table, or all of it. Does not
// own what it points at.
struct SeriesColumn {
  // The sequence numbers of the table's rows, ascending.
  const std::vector<int64_t>* sequences = nullptr;
  // The row of each value, ascending; null: value i is of row i.
  const std::vector<uint32_t>* rows = nullptr;
  const std::vector<double>* values = nullptr;

  size_t row(size_t i) const { return rows == nullptr ? i : (*rows)[i]; }
  int64_t sequence(size_t i) const { return (*sequences)[row(i)]; }
};

// Picks the column's values from `begin` on to show, at most `max_points`
// (at least 1), ascending. All, if there are no more. Else the first and the
// last, and of each of (max_points - 2) / 2 equal stretches of sequence numbers
// between them the smallest and the largest, so that no spike is lost. One
// point: the last.
std::vector<size_t> PickPoints(const SeriesColumn& column, size_t begin,
                               size_t max_points);

// The same without values: of each of max_points - 1 equal stretches the first,
// and the last of all.
std::vector<size_t> PickEvenly(const std::vector<int64_t>& sequences,
                               size_t begin, size_t max_points);

}  // namespace comera::server

#endif  // COMERA_SERVER_VIEW_SERIES_POINTS_H_
