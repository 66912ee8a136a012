// Checks modes and ranks, and derives sizes from them.
#include "kernels/contraction/tt_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {
namespace {

constexpr int64_t kLargestSide = int64_t{1} << 40;
constexpr int64_t kLargestRank = int64_t{1} << 20;
constexpr double kLargestProduct = 0x1p56;

int64_t Product(const std::vector<int64_t>& modes) {
  int64_t product = 1;
  for (int64_t mode : modes) product *= mode;
  return product;
}

absl::Status CheckModes(const char* name, const std::vector<int64_t>& modes) {
  int64_t product = 1;
  for (int64_t mode : modes) {
    if (mode < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " contain ", mode, "; a mode is at least 1"));
    }
    if (mode > kLargestSide / product) {
      return absl::InvalidArgumentError(
          absl::StrCat("the product of ", name, " exceeds ", kLargestSide));
    }
    product *= mode;
  }
  return absl::OkStatus();
}

// Every product of modes and ranks that a chain forms must be a sane int64.
absl::Status CheckEntries(double modes, const std::vector<int64_t>& ranks) {
  double largest = 1;
  for (int64_t rank : ranks) {
    largest = std::max(largest, static_cast<double>(rank));
  }
  if (modes * largest * largest <= kLargestProduct) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "modes and ranks are too large for one layer");
}

absl::Status CheckRanks(const std::vector<int64_t>& ranks, int order) {
  if (static_cast<int>(ranks.size()) != order - 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(ranks.size(), " inner ranks for ", order, " cores"));
  }
  for (int64_t rank : ranks) {
    if (rank < 0 || rank > kLargestRank) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, " is not in [0, ", kLargestRank, "]"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t TtShape::Mode(int core) const {
  return core < inputs() ? input_modes[core] : output_modes[core - inputs()];
}
int64_t TtShape::LeftRank(int core) const {
  return core == 0 ? 1 : ranks[core - 1];
}
int64_t TtShape::RightRank(int core) const {
  return core == order() - 1 ? 1 : ranks[core];
}
int64_t TtShape::CoreSize(int core) const {
  return LeftRank(core) * Mode(core) * RightRank(core);
}
int64_t TtShape::Rows() const { return Product(input_modes); }
int64_t TtShape::Cols() const { return Product(output_modes); }

int64_t TtmShape::LeftRank(int core) const {
  return core == 0 ? 1 : ranks[core - 1];
}
int64_t TtmShape::RightRank(int core) const {
  return core == order() - 1 ? 1 : ranks[core];
}
int64_t TtmShape::CoreSize(int core) const {
  return LeftRank(core) * row_modes[core] * col_modes[core] * RightRank(core);
}

absl::Status ValidateShape(const TtShape& shape) {
  if (shape.input_modes.empty() || shape.output_modes.empty()) {
    return absl::InvalidArgumentError(
        "a tensor-train matrix needs an input and an output mode");
  }
  RETURN_IF_ERROR(CheckModes("input modes", shape.input_modes));
  RETURN_IF_ERROR(CheckModes("output modes", shape.output_modes));
  RETURN_IF_ERROR(CheckRanks(shape.ranks, shape.order()));
  return CheckEntries(static_cast<double>(std::max(shape.Rows(), shape.Cols())),
                      shape.ranks);
}

absl::Status ValidateShape(const TtmShape& shape) {
  if (shape.order() < 2 || shape.col_modes.size() != shape.row_modes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor-train table needs as many row as column modes, "
                     "at least 2: ",
                     shape.row_modes.size(), " and ", shape.col_modes.size()));
  }
  RETURN_IF_ERROR(CheckModes("row modes", shape.row_modes));
  RETURN_IF_ERROR(CheckModes("column modes", shape.col_modes));
  RETURN_IF_ERROR(CheckRanks(shape.ranks, shape.order()));
  return CheckEntries(static_cast<double>(Product(shape.row_modes)) *
                          static_cast<double>(Product(shape.col_modes)),
                      shape.ranks);
}

}  // namespace comera::kernels
