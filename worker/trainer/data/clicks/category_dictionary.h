#ifndef COMERA_WORKER_TRAINER_DATA_CLICKS_CATEGORY_DICTIONARY_H_
#define COMERA_WORKER_TRAINER_DATA_CLICKS_CATEGORY_DICTIONARY_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace comera::trainer {

// Numbers the values of one categorical column in order of first appearance,
// and maps them to the rows of a table of limited size.
//
// Not thread-safe.
class CategoryDictionary {
 public:
  // The number of `value`, and counts it.
  int32_t Add(uint64_t value);
  int64_t size() const { return static_cast<int64_t>(values_.size()); }

  // Rows of a table of at most max_rows (0: no limit).
  int64_t Rows(int64_t max_rows) const;
  // The row of every number, empty where that is the number itself. With too
  // many values, the most frequent ones keep a row of their own, in order of
  // frequency; the last quarter of the rows is shared by the others, by hash.
  std::vector<int32_t> RowsOfNumbers(int64_t max_rows) const;
  // The values that have a row of their own, in the order of their rows.
  std::vector<uint64_t> OwnValues(int64_t max_rows) const;

 private:
  // Numbers of the most frequent values first, of equal ones the earlier.
  std::vector<int32_t> ByFrequency() const;

  absl::flat_hash_map<uint64_t, int32_t> numbers_;
  std::vector<uint64_t> values_;  // by number
  std::vector<int32_t> counts_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CLICKS_CATEGORY_DICTIONARY_H_
