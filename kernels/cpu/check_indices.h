// The guard of table lookups on the processor, where memory would be at stake.
#ifndef COMERA_KERNELS_CPU_CHECK_INDICES_H_
#define COMERA_KERNELS_CPU_CHECK_INDICES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/shape_check.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// InvalidArgument unless every index is in [0, limit).
inline absl::Status CheckIndices(const char* op, ConstIndices indices,
                                 int64_t limit) {
  RETURN_IF_ERROR(CheckMemory(op, "indices", indices.data, indices.size));
  for (int64_t j = 0; j < indices.size; ++j) {
    if (indices.data[j] < 0 || indices.data[j] >= limit) {
      return absl::InvalidArgumentError(absl::StrCat(
          op, ": index ", indices.data[j], " at ", j, " is not below ", limit));
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_CHECK_INDICES_H_
