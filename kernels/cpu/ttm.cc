#include "common/status_macros.h"
#include "kernels/cpu/check_indices.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/small_gemm.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

absl::Status CheckLookup(const char* op, const TtmTables& t,
                         const float* prefix, const float* suffix,
                         ConstIndices rows, ConstMatrix out) {
  RETURN_IF_ERROR(CheckTtm(op, t));
  RETURN_IF_ERROR(CheckMemory(op, "prefix", prefix,
                              t.prefix_rows * t.prefix_cols * t.rank));
  RETURN_IF_ERROR(CheckMemory(op, "suffix", suffix,
                              t.suffix_rows * t.suffix_cols * t.rank));
  RETURN_IF_ERROR(
      CheckMatrix(op, "out", out, rows.size, t.prefix_cols * t.suffix_cols));
  return CheckIndices(op, rows, t.prefix_rows * t.suffix_rows);
}

// Multiply-adds of one row.
int64_t RowCost(const TtmTables& t) {
  return t.prefix_cols * t.rank * t.suffix_cols;
}

// The threads share rows by remainder of the table row that they sum into:
// each sum has one owner and the order of `rows`.
template <typename F>
void ForOwnedRows(int threads, const TtmTables& t, ConstIndices rows,
                  bool by_prefix, const F& f) {
  ParallelRanges(threads, threads, RowCost(t) * rows.size / threads,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t j = 0; j < rows.size; ++j) {
                     const int64_t prefix_row = rows.data[j] / t.suffix_rows;
                     const int64_t suffix_row = rows.data[j] % t.suffix_rows;
                     const int64_t owner =
                         (by_prefix ? prefix_row : suffix_row) % threads;
                     if (owner >= begin && owner < end) {
                       f(j, prefix_row, suffix_row);
                     }
                   }
                 });
}

}  // namespace

absl::Status CpuBackend::TtmLookup(const TtmTables& t, const float* prefix,
                                   const float* suffix, ConstIndices rows,
                                   Matrix out) {
  RETURN_IF_ERROR(CheckLookup("TtmLookup", t, prefix, suffix, rows, out));
  const SmallGemmShape product = {t.prefix_cols,
                                  t.suffix_cols,
                                  t.rank,
                                  t.rank,
                                  1,
                                  t.suffix_rows * t.suffix_cols,
                                  t.suffix_cols};
  ParallelRanges(
      threads_, rows.size, RowCost(t), [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) {
          const int64_t row = rows.data[j];
          SmallGemm(product, 1,
                    prefix + row / t.suffix_rows * t.prefix_cols * t.rank,
                    suffix + row % t.suffix_rows * t.suffix_cols, 0,
                    out.data + j * out.stride);
        }
      });
  return absl::OkStatus();
}

absl::Status CpuBackend::TtmLookupBackward(
    const TtmTables& t, const float* prefix, const float* suffix,
    ConstIndices rows, ConstMatrix grad_out, float* grad_prefix,
    float* grad_suffix) {
  constexpr char kOp[] = "TtmLookupBackward";
  RETURN_IF_ERROR(CheckLookup(kOp, t, prefix, suffix, rows, grad_out));
  const int64_t prefix_size = t.prefix_cols * t.rank;
  const int64_t suffix_stride = t.suffix_rows * t.suffix_cols;
  RETURN_IF_ERROR(CheckMemory(kOp, "grad_prefix", grad_prefix,
                              t.prefix_rows * prefix_size));
  RETURN_IF_ERROR(
      CheckMemory(kOp, "grad_suffix", grad_suffix, t.rank * suffix_stride));
  if (rows.size == 0 || RowCost(t) == 0) return absl::OkStatus();

  // Transposed once, the suffix gives contiguous rows to every product:
  // (suffix_rows * suffix_cols, rank).
  float* transposed = Scratch<float>(t.rank * suffix_stride);
  RETURN_IF_ERROR(
      SwapMiddleAxes(1, t.rank, suffix_stride, 1, suffix, transposed));
  const SmallGemmShape to_prefix = {
      t.prefix_cols, t.rank, t.suffix_cols, t.suffix_cols, 1, t.rank, t.rank};
  ForOwnedRows(threads_, t, rows, true, [&](int64_t j, int64_t p, int64_t s) {
    SmallGemm(to_prefix, 1, grad_out.data + j * grad_out.stride,
              transposed + s * t.suffix_cols * t.rank, 1,
              grad_prefix + p * prefix_size);
  });
  const SmallGemmShape to_suffix = {t.rank, t.suffix_cols, t.prefix_cols, 1,
                                    t.rank, t.suffix_cols, suffix_stride};
  ForOwnedRows(threads_, t, rows, false, [&](int64_t j, int64_t p, int64_t s) {
    SmallGemm(to_suffix, 1, prefix + p * prefix_size,
              grad_out.data + j * grad_out.stride, 1,
              grad_suffix + s * t.suffix_cols);
  });
  return absl::OkStatus();
}

}  // namespace comera::kernels
