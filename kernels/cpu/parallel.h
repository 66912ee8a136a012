// Loops over the thread pool. The pool is OpenMP's, which oneDNN uses too, so
// that a process has one set of threads.
#ifndef COMERA_KERNELS_CPU_PARALLEL_H_
#define COMERA_KERNELS_CPU_PARALLEL_H_

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace comera::kernels {

// Elements of simple work below which starting a thread costs more than it
// brings.
inline constexpr int64_t kParallelGrain = 16384;

// A sum over rows is made of at most this many partial sums, whatever the
// number of threads, so that its bits do not depend on that number.
inline constexpr int64_t kReductionBlocks = 16;
inline constexpr int64_t kReductionRows = 64;  // at least, per block

inline int64_t ReductionBlocks(int64_t rows) {
  return std::clamp<int64_t>(rows / kReductionRows, 1, kReductionBlocks);
}

// Calls f(begin, end) on disjoint ranges that cover [0, n); `cost` is the
// number of elements of simple work behind one index.
template <typename F>
void ParallelRanges(int threads, int64_t n, int64_t cost, const F& f) {
  if (n <= 0) return;
  const int64_t work = n * std::max<int64_t>(cost, 1);
  const int64_t parts =
      std::min<int64_t>({threads, n, 1 + work / kParallelGrain});
  if (parts <= 1) {
    f(int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int64_t part = 0; part < parts; ++part) {
    f(n * part / parts, n * (part + 1) / parts);
  }
}

// The same as ParallelRanges over single elements, with ranges of whole cache
// lines.
template <typename F>
void ParallelElements(int threads, int64_t n, int64_t cost, const F& f) {
  constexpr int64_t kLine = 16;
  ParallelRanges(threads, (n + kLine - 1) / kLine, cost * kLine,
                 [&](int64_t begin, int64_t end) {
                   f(begin * kLine, std::min(end * kLine, n));
                 });
}

// Calls f(row, column, count) so that every element of a (rows, cols) matrix
// is in one call. With `contiguous` (no gap between rows) runs cross rows and
// all come with row 0.
template <typename F>
void ParallelRuns(int threads, int64_t rows, int64_t cols, bool contiguous,
                  int64_t cost, const F& f) {
  if (contiguous) {
    ParallelElements(
        threads, rows * cols, cost,
        [&](int64_t begin, int64_t end) { f(int64_t{0}, begin, end - begin); });
    return;
  }
  ParallelRanges(threads, rows, cost * cols, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i, int64_t{0}, cols);
  });
}

// Sets how many threads oneDNN may take for calls of this thread.
class ScopedThreads {
 public:
  explicit ScopedThreads(int threads) : before_(omp_get_max_threads()) {
    if (before_ != threads) omp_set_num_threads(threads);
  }
  ~ScopedThreads() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  const int before_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PARALLEL_H_
