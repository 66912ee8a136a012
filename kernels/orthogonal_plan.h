// How Backend::OrthogonalStep lays out its work; shared by the backends.
#ifndef COMERA_KERNELS_ORTHOGONAL_PLAN_H_
#define COMERA_KERNELS_ORTHOGONAL_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/backend.h"

namespace comera::kernels {

// The iteration by which Muon orthogonalises a matrix
// (github.com/KellerJordan/Muon, zeropower_via_newtonschulz5). After five
// iterations singular values from about 0.002 to 1 lie between 0.68 and 1.21;
// smaller ones grow by kA^5 at most.
struct NewtonSchulz {
  static constexpr int kIterations = 5;
  // X <- a X + (b A + c A^2) X with A = X X^T.
  static constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
  // Added to the Frobenius norm by which the matrix is divided at first.
  static constexpr float kEpsilon = 1e-7f;
};

// One matrix X, processed in its tall orientation T (tall, wide), which is X or
// its transpose. Both products of an iteration, the Gram matrix A = T' T and T
// times the polynomial b A + c A^2, then read contiguous rows.
struct OrthogonalTask {
  OrthogonalSegment segment;
  int64_t tall = 0, wide = 0;
  // Floats from one row of T, A and its polynomial to the next. Columns from
  // `wide` on are 0.
  int64_t stride = 0;
  // Place in the workspace, in floats: T, the next T, A and its polynomial.
  int64_t offset = 0;

  bool transposed() const { return segment.rows < segment.cols; }
  int64_t size() const { return tall * wide; }
  int64_t floats() const { return 2 * stride * (tall + wide); }
};

struct OrthogonalPlan {
  // Matrices that get the whole device one after the other and share a place.
  std::vector<OrthogonalTask> large;
  // Matrices that are worked on side by side, those with most work first.
  std::vector<OrthogonalTask> small;
  int64_t floats = 0;  // size of the workspace
};

// Strides are multiples of `lanes`.
OrthogonalPlan PlanOrthogonalStep(absl::Span<const OrthogonalSegment> segments,
                                  int64_t lanes = 1);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_ORTHOGONAL_PLAN_H_
