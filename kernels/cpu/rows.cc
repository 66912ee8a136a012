// Copies, gathers, sums, scatters and puts whole rows.
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

// Each row of out in registers or the nearest cache, one addend after another.
COMERA_CLONES
void SumRuns(ConstMatrix table, const int32_t* rows, const int32_t* offsets,
             Matrix out, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    float* to = out.data + i * out.stride;
    if (offsets[i] == offsets[i + 1]) {
      std::memset(to, 0, out.cols * sizeof(float));
      continue;
    }
    std::memcpy(to, table.data + rows[offsets[i]] * table.stride,
                out.cols * sizeof(float));
    for (int64_t q = offsets[i] + 1; q < offsets[i + 1]; ++q) {
      const float* from = table.data + rows[q] * table.stride;
#pragma omp simd
      for (int64_t c = 0; c < out.cols; ++c) to[c] += from[c];
    }
  }
}

}  // namespace

absl::Status CpuBackend::CopyRows(ConstMatrix from, Matrix to) {
  RETURN_IF_ERROR(CheckMatrix("CopyRows", "from", from));
  RETURN_IF_ERROR(CheckMatrix("CopyRows", "to", to, from.rows, from.cols));
  if (from.cols == 0) return absl::OkStatus();
  ParallelRanges(
      threads_, from.rows, from.cols, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          std::memcpy(to.data + i * to.stride, from.data + i * from.stride,
                      from.cols * sizeof(float));
        }
      });
  return absl::OkStatus();
}

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

absl::Status CpuBackend::SumRows(ConstMatrix table, ConstIndices rows,
                                 ConstIndices offsets, Matrix out) {
  RETURN_IF_ERROR(CheckMatrix("SumRows", "table", table));
  RETURN_IF_ERROR(CheckMatrix("SumRows", "out", out, out.rows, table.cols));
  RETURN_IF_ERROR(CheckIndices("SumRows", rows, table.rows));
  RETURN_IF_ERROR(CheckOffsets("SumRows", offsets, out.rows, rows.size));
  if (table.cols == 0 || out.rows == 0) return absl::OkStatus();
  ParallelRanges(threads_, out.rows, table.cols * (1 + rows.size / out.rows),
                 [&](int64_t begin, int64_t end) {
                   SumRuns(table, rows.data, offsets.data, out, begin, end);
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

absl::Status CpuBackend::PutRows(ConstMatrix in, ConstIndices rows,
                                 Matrix table) {
  constexpr char kOp[] = "PutRows";
  RETURN_IF_ERROR(CheckMatrix(kOp, "table", table));
  RETURN_IF_ERROR(CheckMatrix(kOp, "in", in, rows.size, table.cols));
  RETURN_IF_ERROR(CheckIndices(kOp, rows, table.rows));
  RETURN_IF_ERROR(CheckDistinct(kOp, rows, Scratch<int32_t>(rows.size)));
  if (table.cols == 0) return absl::OkStatus();
  ParallelRanges(
      threads_, rows.size, table.cols, [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) {
          std::memcpy(table.data + rows.data[j] * table.stride,
                      in.data + j * in.stride, in.cols * sizeof(float));
        }
      });
  return absl::OkStatus();
}

}  // namespace comera::kernels
