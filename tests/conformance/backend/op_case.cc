// Builds the operands of a row.
#include "tests/conformance/backend/op_case.h"

#include <utility>

namespace comera::kernels {

Operand In(std::string name, int64_t rows, int64_t cols) {
  return {std::move(name), rows, cols};
}
Operand Out(std::string name, int64_t rows, int64_t cols) {
  return {std::move(name), rows, cols, Use::kWritten};
}
Operand Updated(std::string name, int64_t rows, int64_t cols) {
  return {std::move(name), rows, cols, Use::kUpdated};
}
Operand Indices(std::string name, int64_t count, int64_t limit) {
  Operand operand = Within(0, static_cast<double>(limit),
                           Packed(In(std::move(name), 1, count)));
  operand.indices = true;
  return operand;
}
Operand List(std::string name, std::vector<double> values) {
  Operand operand =
      Indices(std::move(name), static_cast<int64_t>(values.size()), 1);
  operand.values = std::move(values);
  return operand;
}
OpCase Sparing(OpCase op) {
  op.sparing = true;
  return op;
}
Operand Packed(Operand operand) {
  operand.packed = true;
  return operand;
}
Operand Within(double low, double high, Operand operand) {
  operand.low = low;
  operand.high = high;
  return operand;
}

}  // namespace comera::kernels
