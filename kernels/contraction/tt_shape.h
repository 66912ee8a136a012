// Modes and ranks of a matrix in tensor-train format.
#ifndef COMERA_KERNELS_CONTRACTION_TT_SHAPE_H_
#define COMERA_KERNELS_CONTRACTION_TT_SHAPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace comera::kernels {

// W (N x M) = H_1 ... H_order, N the product of the input modes and M of the
// output modes, both indices in C order. Core i (from 0) is (LeftRank(i),
// Mode(i), RightRank(i)), row-major.
struct TtShape {
  std::vector<int64_t> input_modes;
  std::vector<int64_t> output_modes;
  std::vector<int64_t> ranks;  // inner: order - 1; 0 is allowed

  int inputs() const { return static_cast<int>(input_modes.size()); }
  int order() const {
    return static_cast<int>(input_modes.size() + output_modes.size());
  }
  int64_t Mode(int core) const;
  int64_t LeftRank(int core) const;
  int64_t RightRank(int core) const;
  int64_t CoreSize(int core) const;
  int64_t Rows() const;  // N
  int64_t Cols() const;  // M
  // The rank between inputs and outputs.
  int64_t MiddleRank() const { return LeftRank(inputs()); }
};

// The embedding's format: core i is (LeftRank, RowMode, ColMode, RightRank).
struct TtmShape {
  std::vector<int64_t> row_modes;
  std::vector<int64_t> col_modes;  // as many as row_modes
  std::vector<int64_t> ranks;      // inner: order - 1; 0 is allowed

  int order() const { return static_cast<int>(row_modes.size()); }
  int64_t LeftRank(int core) const;
  int64_t RightRank(int core) const;
  int64_t CoreSize(int core) const;
};

// InvalidArgument: no input or no output mode (TTM: fewer than two cores, or
// unequal numbers of modes), a mode below 1, a negative rank, a number of ranks
// other than order - 1, or sizes whose products would not fit in memory by far.
absl::Status ValidateShape(const TtShape& shape);
absl::Status ValidateShape(const TtmShape& shape);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_TT_SHAPE_H_
