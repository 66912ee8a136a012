// Finds out which operations need which by the elements that they share.
#include "kernels/task_levels.h"

#include <utility>

namespace comera::kernels {
namespace {

// Multiply-adds up to which a product is left to a few blocks of threads.
constexpr int64_t kMostWork = int64_t{2} << 20;

const float* End(const ConstMatrix& m) {
  return m.data + (m.rows - 1) * m.stride + m.cols;
}

// Whether two views share an element. Columns of one matrix, as the heads of an
// attention take them, do not.
bool Overlap(const ConstMatrix& a, const ConstMatrix& b) {
  if (a.rows == 0 || a.cols == 0 || b.rows == 0 || b.cols == 0) return false;
  if (End(a) <= b.data || End(b) <= a.data) return false;
  if (a.stride != b.stride || a.rows == 1 || b.rows == 1) return true;
  const int64_t stride = a.stride;
  const int64_t column = ((a.data - b.data) % stride + stride) %
                         stride;  // a's, counted from b's first
  return column < b.cols || column + a.cols > stride;
}

bool AnyOverlap(const std::vector<ConstMatrix>& a,
                const std::vector<ConstMatrix>& b) {
  for (const ConstMatrix& x : a) {
    for (const ConstMatrix& y : b) {
      if (Overlap(x, y)) return true;
    }
  }
  return false;
}

}  // namespace

bool IsSmallProduct(int64_t m, int64_t n, int64_t k) {
  return m <= kMostWork && n <= kMostWork && k <= kMostWork &&
         m * n <= kMostWork && m * n * k <= kMostWork;
}

int TaskLevels::Add(std::vector<ConstMatrix> reads,
                    std::vector<ConstMatrix> writes) {
  Task task = {0, std::move(reads), std::move(writes)};
  for (const Task& earlier : tasks_) {
    if (earlier.level < task.level) continue;
    if (AnyOverlap(task.writes, earlier.writes) ||
        AnyOverlap(task.writes, earlier.reads) ||
        AnyOverlap(task.reads, earlier.writes)) {
      task.level = earlier.level + 1;
    }
  }
  tasks_.push_back(std::move(task));
  return tasks_.back().level;
}

}  // namespace comera::kernels
