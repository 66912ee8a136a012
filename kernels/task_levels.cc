// Finds out which operations need which by the elements that they share.
#include "kernels/task_levels.h"

#include <algorithm>
#include <tuple>

namespace comera::kernels {
namespace {

const float* End(const ConstMatrix& m) {
  return m.data + (m.rows - 1) * m.stride + m.cols;
}

bool IsEmpty(const ConstMatrix& m) { return m.rows == 0 || m.cols == 0; }

uintptr_t Begin(const ConstMatrix& m) {
  return reinterpret_cast<uintptr_t>(m.data);
}

uintptr_t Length(const ConstMatrix& m) {
  return reinterpret_cast<uintptr_t>(End(m)) - Begin(m);
}

// Lengths of a class differ by a factor of 8.
size_t ClassOf(uintptr_t length, size_t classes) {
  size_t i = 0;
  while ((length >>= 3) != 0) ++i;
  return std::min(i, classes - 1);
}

}  // namespace

bool SharesElements(const ConstMatrix& a, const ConstMatrix& b) {
  if (IsEmpty(a) || IsEmpty(b)) return false;
  if (End(a) <= b.data || End(b) <= a.data) return false;
  if (a.stride != b.stride || a.rows == 1 || b.rows == 1) return true;
  const int64_t stride = a.stride;
  const int64_t column = ((a.data - b.data) % stride + stride) %
                         stride;  // a's, counted from b's first
  return column < b.cols || column + a.cols > stride;
}

ConstMatrix MemoryOf(const ConstBf16Matrix& m) {
  const auto address = reinterpret_cast<uintptr_t>(m.data);
  const auto odd = static_cast<int64_t>(address % sizeof(float) / 2);
  const auto* const data = reinterpret_cast<const float*>(address - 2 * odd);
  if (m.rows == 0 || m.cols == 0) return ConstMatrix(data, 0, 0);
  if (odd == 0 && m.cols % 2 == 0 && m.stride % 2 == 0) {
    return ConstMatrix(data, m.rows, m.cols / 2, m.stride / 2);
  }
  return ConstMatrix(data, 1, (odd + (m.rows - 1) * m.stride + m.cols + 1) / 2);
}

bool TaskLevels::Key::operator<(const Key& other) const {
  if (begin != other.begin) return begin < other.begin;
  return std::tie(rows, cols, stride) <
         std::tie(other.rows, other.cols, other.stride);
}

int TaskLevels::HighestOn(const ConstMatrix& view, bool reads_too) const {
  int highest = -1;
  if (IsEmpty(view)) return highest;
  const uintptr_t begin = Begin(view), end = begin + Length(view);
  for (const LengthClass& each : classes_) {
    if (each.views.empty()) continue;
    const uintptr_t first = begin - std::min(begin, each.longest);
    for (auto at = each.views.lower_bound({first});
         at != each.views.end() && at->first.begin < end; ++at) {
      const auto& [key, levels] = *at;
      const int level =
          reads_too ? std::max(levels.read, levels.written) : levels.written;
      if (level <= highest) continue;
      const ConstMatrix other(reinterpret_cast<const float*>(key.begin),
                              key.rows, key.cols, key.stride);
      if (SharesElements(view, other)) highest = level;
    }
  }
  return highest;
}

void TaskLevels::Note(const ConstMatrix& view, bool writes, int level) {
  if (IsEmpty(view)) return;
  const uintptr_t length = Length(view);
  LengthClass& to = classes_[ClassOf(length, classes_.size())];
  to.longest = std::max(to.longest, length);
  Levels& levels = to.views[{Begin(view), view.rows, view.cols, view.stride}];
  int& highest = writes ? levels.written : levels.read;
  highest = std::max(highest, level);
}

int TaskLevels::Add(absl::Span<const ConstMatrix> reads,
                    absl::Span<const ConstMatrix> writes) {
  int below = -1;
  for (const ConstMatrix& view : reads) {
    below = std::max(below, HighestOn(view, /*reads_too=*/false));
  }
  for (const ConstMatrix& view : writes) {
    below = std::max(below, HighestOn(view, /*reads_too=*/true));
  }
  for (const ConstMatrix& view : reads) Note(view, false, below + 1);
  for (const ConstMatrix& view : writes) Note(view, true, below + 1);
  return below + 1;
}

void TaskLevels::Clear() {
  for (LengthClass& each : classes_) {
    each.longest = 0;
    each.views.clear();
  }
}

}  // namespace comera::kernels
