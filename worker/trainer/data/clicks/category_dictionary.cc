// Numbers the values of a categorical column and gives them table rows.
#include "worker/trainer/data/clicks/category_dictionary.h"

#include <algorithm>
#include <numeric>

#include "worker/trainer/data/random/counter_random.h"

namespace comera::trainer {
namespace {

int64_t SharedRows(int64_t max_rows) {
  return std::max<int64_t>(1, max_rows / 4);
}

}  // namespace

int32_t CategoryDictionary::Add(uint64_t value) {
  const auto [found, inserted] =
      numbers_.try_emplace(value, static_cast<int32_t>(values_.size()));
  if (inserted) {
    values_.push_back(value);
    counts_.push_back(0);
  }
  ++counts_[found->second];
  return found->second;
}

int64_t CategoryDictionary::Rows(int64_t max_rows) const {
  return max_rows == 0 ? size() : std::min(size(), max_rows);
}

std::vector<int32_t> CategoryDictionary::ByFrequency() const {
  std::vector<int32_t> order(values_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return counts_[a] > counts_[b];
  });
  return order;
}

std::vector<uint64_t> CategoryDictionary::OwnValues(int64_t max_rows) const {
  if (Rows(max_rows) == size()) return values_;
  const std::vector<int32_t> order = ByFrequency();
  std::vector<uint64_t> own(max_rows - SharedRows(max_rows));
  for (size_t i = 0; i < own.size(); ++i) own[i] = values_[order[i]];
  return own;
}

std::vector<int32_t> CategoryDictionary::RowsOfNumbers(int64_t max_rows) const {
  if (Rows(max_rows) == size()) return {};
  const int64_t shared = SharedRows(max_rows);
  const int64_t own = max_rows - shared;
  const std::vector<int32_t> order = ByFrequency();
  std::vector<int32_t> rows(values_.size());
  for (int64_t i = 0; i < size(); ++i) {
    const int32_t number = order[i];
    rows[number] = static_cast<int32_t>(
        i < own ? i
                : own + static_cast<int64_t>(MixBits(values_[number]) %
                                             static_cast<uint64_t>(shared)));
  }
  return rows;
}

}  // namespace comera::trainer
