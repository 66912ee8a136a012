// The guard of table lookups on the processor, where memory would be at stake.
#ifndef COMERA_KERNELS_CPU_CHECK_INDICES_H_
#define COMERA_KERNELS_CPU_CHECK_INDICES_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/shape_check.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// InvalidArgument unless every index is in [least, limit).
inline absl::Status CheckIndices(const char* op, ConstIndices indices,
                                 int64_t limit, int64_t least = 0) {
  RETURN_IF_ERROR(CheckMemory(op, "indices", indices.data, indices.size));
  for (int64_t j = 0; j < indices.size; ++j) {
    if (indices.data[j] < least || indices.data[j] >= limit) {
      return absl::InvalidArgumentError(
          absl::StrCat(op, ": index ", indices.data[j], " at ", j,
                       " is outside [", least, ", ", limit, ")"));
    }
  }
  return absl::OkStatus();
}

// InvalidArgument unless `offsets` cut `count` elements into `groups` runs:
// they rise from 0 to count, one more than the runs.
inline absl::Status CheckOffsets(const char* op, ConstIndices offsets,
                                 int64_t groups, int64_t count) {
  RETURN_IF_ERROR(CheckMemory(op, "offsets", offsets.data, offsets.size));
  if (offsets.size != groups + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(op, ": ", offsets.size, " offsets for ", groups, " runs"));
  }
  int64_t before = 0;
  for (int64_t i = 0; i <= groups; ++i) {
    const int64_t next = offsets.data[i];
    if (next < before || next > count || (i == 0 && next != 0) ||
        (i == groups && next != count)) {
      return absl::InvalidArgumentError(
          absl::StrCat(op, ": offset ", next, " at ", i, " after ", before,
                       " for ", count, " elements"));
    }
    before = next;
  }
  return absl::OkStatus();
}

// InvalidArgument if an index comes twice; `scratch` has room for a copy of
// them. Rising indices, the usual ones, are only read.
inline absl::Status CheckDistinct(const char* op, ConstIndices indices,
                                  int32_t* scratch) {
  const int32_t* const end = indices.data + indices.size;
  const auto rise = [](int32_t a, int32_t b) { return a >= b; };
  if (std::adjacent_find(indices.data, end, rise) == end) {
    return absl::OkStatus();
  }
  int32_t* const sorted_end = std::copy(indices.data, end, scratch);
  std::sort(scratch, sorted_end);
  const int32_t* const twice = std::adjacent_find(scratch, sorted_end);
  if (twice == sorted_end) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(op, ": index ", *twice, " comes twice"));
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_CHECK_INDICES_H_
