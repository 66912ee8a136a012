// One row of the operation tests: an operation, its shapes, its tolerance.
#ifndef COMERA_TESTS_CONFORMANCE_BACKEND_OP_CASE_H_
#define COMERA_TESTS_CONFORMANCE_BACKEND_OP_CASE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/reference/matrix.h"

namespace comera::kernels {

enum class Use {
  kRead,     // must come back unchanged
  kWritten,  // begins as NaN
  kUpdated,  // begins with random values
};

struct Operand {
  std::string name;
  int64_t rows = 0;
  int64_t cols = 0;
  Use use = Use::kRead;
  // Values are uniform in [low, high); whole numbers for an index list.
  double low = -1;
  double high = 1;
  bool indices = false;
  // The operation takes a pointer or a vector: there are no gaps between rows.
  bool packed = false;
  // If not empty, the values before; else they are random.
  std::vector<double> values = {};
};
Operand In(std::string name, int64_t rows, int64_t cols);
Operand Out(std::string name, int64_t rows, int64_t cols);
Operand Updated(std::string name, int64_t rows, int64_t cols);
Operand Indices(std::string name, int64_t count, int64_t limit);
// An index list of these values.
Operand List(std::string name, std::vector<double> values);
Operand Packed(Operand operand);
Operand Within(double low, double high, Operand operand);

// An operand's memory as the operation wants to see it.
struct DeviceOperand {
  Matrix matrix;
  Vector vector() const { return {matrix.data, matrix.rows * matrix.cols}; }
  ConstIndices indices() const {
    return {reinterpret_cast<const int32_t*>(matrix.data),
            matrix.rows * matrix.cols};
  }
};
struct DeviceOperands {
  std::vector<DeviceOperand> operands;
  const StepState* state = nullptr;  // kState
  const DeviceOperand& operator[](size_t i) const { return operands[i]; }
};
inline constexpr uint64_t kSeed = 0x123456789abcdefull;
inline constexpr uint64_t kStep = 41;
inline constexpr StepState kState = {kSeed, kStep, 0.19f, 0.04f, 0.5f};

struct OpCase {
  std::string name;
  std::vector<Operand> operands;
  std::function<absl::Status(Backend*, const DeviceOperands&)> run;
  // Turns the operands' values before into those after.
  std::function<void(std::vector<reference::DoubleMatrix>*)> reference;
  // Relative to the operand's largest expected magnitude, or to `least`.
  double tolerance = 2e-6;
  // Numbers of threads and layouts of rows meet once each instead of all with
  // all: a large row that is there for its size, beside smaller ones.
  bool sparing = false;
  double least = 1e-3;
};
// The row with `sparing`.
OpCase Sparing(OpCase op);

// Sizes 0, 1, odd, and large enough for several threads.
std::vector<OpCase> LinearCases();
std::vector<OpCase> GroupedProductCases();
std::vector<OpCase> CoreCases();
std::vector<OpCase> LookupCases();
std::vector<OpCase> PointwiseCases();
std::vector<OpCase> GatedCases();
std::vector<OpCase> InteractionCases();
std::vector<OpCase> LayerNormCases();
std::vector<OpCase> RmsNormCases();
std::vector<OpCase> RotateCases();
std::vector<OpCase> RankSpaceFfnCases();
std::vector<OpCase> RankSpaceStreamCases();
std::vector<OpCase> AttentionCases();
std::vector<OpCase> CachedAttentionCases();
std::vector<OpCase> RankSpaceAttentionCases();
std::vector<OpCase> ObjectiveCases();

}  // namespace comera::kernels

#endif  // COMERA_TESTS_CONFORMANCE_BACKEND_OP_CASE_H_
