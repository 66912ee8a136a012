// Sorts operations by which of them can run beside each other.
#ifndef COMERA_KERNELS_TASK_LEVELS_H_
#define COMERA_KERNELS_TASK_LEVELS_H_

#include <array>
#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/types/span.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// Whether two views share an element. Columns of one matrix, as the heads of an
// attention take them, do not.
bool SharesElements(const ConstMatrix& a, const ConstMatrix& b);

// The memory of a matrix as floats: the same elements or, where rows do not
// begin and end with a float, all from the first to the last.
ConstMatrix MemoryOf(const ConstBf16Matrix& m);

// Sorts operations into levels: an operation's level is one above those of all
// earlier ones that write what it touches, or touch what it writes. Not
// thread-safe.
class TaskLevels {
 public:
  // The level of the next operation, from 0 on.
  int Add(absl::Span<const ConstMatrix> reads,
          absl::Span<const ConstMatrix> writes);
  // Forgets all operations.
  void Clear();

 private:
  // Views by their first address, those of one address by the rest. Operations
  // on the same view share an entry: only the highest level matters.
  struct Key {
    uintptr_t begin = 0;
    int64_t rows = 0, cols = 0, stride = 0;

    bool operator<(const Key& other) const;
  };
  struct Levels {
    int read = -1, written = -1;  // the highest of both; -1: never
  };
  // Views whose lengths differ little: those that overlap with a given one
  // begin in a short range of addresses.
  struct LengthClass {
    uintptr_t longest = 0;  // bytes
    absl::btree_map<Key, Levels> views;
  };

  // The highest level of an earlier operation that writes, or with `reads_too`
  // touches, elements of the view; -1 if none does.
  int HighestOn(const ConstMatrix& view, bool reads_too) const;
  void Note(const ConstMatrix& view, bool writes, int level);

  std::array<LengthClass, 24> classes_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_TASK_LEVELS_H_
