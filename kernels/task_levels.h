// Sorts operations by which of them can run beside each other.
#ifndef COMERA_KERNELS_TASK_LEVELS_H_
#define COMERA_KERNELS_TASK_LEVELS_H_

#include <cstdint>
#include <vector>

#include "kernels/tensor.h"

namespace comera::kernels {

// Whether a product is small: a GPU runs it beside others in one launch
// (Backend::BeginTogether), while larger ones fill the device by themselves.
bool IsSmallProduct(int64_t m, int64_t n, int64_t k);

// Sorts operations into levels: an operation's level is one above those of all
// earlier ones that write what it touches, or touch what it writes. Not
// thread-safe.
class TaskLevels {
 public:
  // The level of the next operation, from 0 on.
  int Add(std::vector<ConstMatrix> reads, std::vector<ConstMatrix> writes);
  // Forgets all operations.
  void Clear() { tasks_.clear(); }

 private:
  struct Task {
    int level = 0;
    std::vector<ConstMatrix> reads, writes;
  };
  std::vector<Task> tasks_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_TASK_LEVELS_H_
