#include <cstring>

#include "common/status_macros.h"
#include "kernels/cpu/check_indices.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// Columns [begin, end) of every row, in order of rows: each thread owns its
// columns, so no sum is shared.
COMERA_CLONES
void AddColumns(ConstMatrix in, const int32_t* rows, Matrix table,
                int64_t begin, int64_t end) {
  for (int64_t j = 0; j < in.rows; ++j) {
    const float* from = in.data + j * in.stride;
    float* to = table.data + rows[j] * table.stride;
#pragma omp simd
    for (int64_t c = begin; c < end; ++c) to[c] += from[c];
  }
}

}  // namespace

absl::Status CpuBackend::GatherRows(ConstMatrix table, ConstIndices rows,
                                    Matrix out) {
  RETURN_IF_ERROR(CheckMatrix("GatherRows", "table", table));
  RETURN_IF_ERROR(CheckMatrix("GatherRows", "out", out, rows.size, table.cols));
  RETURN_IF_ERROR(CheckIndices("GatherRows", rows, table.rows));
  if (table.cols == 0) return absl::OkStatus();
  ParallelRanges(threads_, rows.size, table.cols,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t j = begin; j < end; ++j) {
                     std::memcpy(out.data + j * out.stride,
                                 table.data + rows.data[j] * table.stride,
                                 table.cols * sizeof(float));
                   }
                 });
  return absl::OkStatus();
}

absl::Status CpuBackend::ScatterAddRows(ConstMatrix in, ConstIndices rows,
                                        Matrix table) {
  RETURN_IF_ERROR(CheckMatrix("ScatterAddRows", "table", table));
  RETURN_IF_ERROR(
      CheckMatrix("ScatterAddRows", "in", in, rows.size, table.cols));
  RETURN_IF_ERROR(CheckIndices("ScatterAddRows", rows, table.rows));
  ParallelRanges(threads_, table.cols, rows.size,
                 [&](int64_t begin, int64_t end) {
                   AddColumns(in, rows.data, table, begin, end);
                 });
  return absl::OkStatus();
}

}  // namespace comera::kernels
