// Checks of operands that every backend makes before it touches memory.
// InvalidArgument names the operation, the operand and both shapes.
#ifndef COMERA_KERNELS_SHAPE_CHECK_H_
#define COMERA_KERNELS_SHAPE_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// A readable matrix of exactly this shape.
absl::Status CheckMatrix(const char* op, const char* name, ConstMatrix m,
                         int64_t rows, int64_t cols);
// A readable matrix of any shape.
absl::Status CheckMatrix(const char* op, const char* name, ConstMatrix m);
// A matrix of the same shape, for checks that do not look at its elements.
template <typename T>
ConstMatrix ShapeOf(const MatrixView<T>& m) {
  return ConstMatrix(reinterpret_cast<const float*>(m.data), m.rows, m.cols,
                     m.stride);
}
// The same as CheckMatrix of bfloat16.
inline absl::Status CheckBf16(const char* op, const char* name,
                              ConstBf16Matrix m, int64_t rows, int64_t cols) {
  return CheckMatrix(op, name, ShapeOf(m), rows, cols);
}
inline absl::Status CheckBf16(const char* op, const char* name,
                              ConstBf16Matrix m) {
  return CheckBf16(op, name, m, m.rows, m.cols);
}
absl::Status CheckVector(const char* op, const char* name, ConstVector v,
                         int64_t size);
// Anything of `size` elements: a negative size or a null where there should be
// memory is refused.
absl::Status CheckMemory(const char* op, const char* name, const void* data,
                         int64_t size);
absl::Status CheckDropout(const char* op, const DropoutKey& key);
// t (any, rank + 1) with a column of ones and b (rank + 1, any).
absl::Status CheckExpand(const char* op, ConstMatrix t, ConstMatrix b);
absl::Status CheckRankSpaceFfn(const char* op, ConstMatrix t1, ConstMatrix b1,
                               ConstMatrix a2);
absl::Status CheckAttention(const char* op, const AttentionShape& shape,
                            ConstIndices offsets);
// Sizes that are not negative and whose products fit, and heads of keys and
// values that divide those of the queries.
absl::Status CheckCachedHeads(const char* op,
                              const CachedAttentionShape& shape);
// Every query sees every key of its sequence, and each head has keys of its
// own: the only attention that has a form in rank space.
absl::Status CheckEncoderAttention(const char* op, const AttentionShape& shape);
absl::Status CheckTtm(const char* op, const TtmTables& tables);
// Matrices inside a buffer of `size` floats, small enough to orthogonalise.
absl::Status CheckOrthogonalStep(const OrthogonalRule& rule,
                                 absl::Span<const OrthogonalSegment> segments,
                                 int64_t size);
absl::Status CheckBonds(const char* op, ConstVector parameters,
                        absl::Span<const BondSpan> bonds);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_SHAPE_CHECK_H_
