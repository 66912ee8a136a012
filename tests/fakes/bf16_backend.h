// A CPU backend that keeps bfloat16 in memory, by plain loops.
#ifndef COMERA_TESTS_FAKES_BF16_BACKEND_H_
#define COMERA_TESTS_FAKES_BF16_BACKEND_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "kernels/backend.h"
#include "tests/fakes/forwarding_backend.h"

namespace comera::kernels {

inline float FromBf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float x;
  std::memcpy(&x, &wide, sizeof(x));
  return x;
}
// To nearest, ties to even.
inline uint16_t ToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Everything else is the CPU backend's, which it must outlive.
class Bf16Backend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  bool has_bf16() const override { return true; }
  absl::Status Round(ConstMatrix x, Bf16Matrix y) override {
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < x.cols; ++j) At(y, i, j) = ToBf16(At(x, i, j));
    }
    return absl::OkStatus();
  }
  absl::Status GemmBf16(bool transpose_a, bool transpose_b, ConstBf16Matrix a,
                        ConstBf16Matrix b, float beta, Matrix c) override {
    for (int64_t i = 0; i < c.rows; ++i) {
      for (int64_t j = 0; j < c.cols; ++j) {
        const float sum = Sum(transpose_a, transpose_b, a, b, i, j);
        At(c, i, j) = beta == 0 ? sum : sum + beta * At(c, i, j);
      }
    }
    return absl::OkStatus();
  }
  absl::Status GemmToBf16(bool transpose_a, bool transpose_b, ConstBf16Matrix a,
                          ConstBf16Matrix b, Bf16Matrix c) override {
    for (int64_t i = 0; i < c.rows; ++i) {
      for (int64_t j = 0; j < c.cols; ++j) {
        At(c, i, j) = ToBf16(Sum(transpose_a, transpose_b, a, b, i, j));
      }
    }
    return absl::OkStatus();
  }
  absl::Status ActivateBf16(Activation f, ConstBf16Matrix x,
                            Bf16Matrix y) override {
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < x.cols; ++j) {
        float value = FromBf16(At(x, i, j));
        const Matrix m(&value, 1, 1);
        const absl::Status status = backend()->Activate(f, m, m);
        if (!status.ok()) return status;
        At(y, i, j) = ToBf16(value);
      }
    }
    return absl::OkStatus();
  }
  absl::Status ActivateBackwardBf16(Activation f, ConstBf16Matrix saved,
                                    ConstBf16Matrix grad_y,
                                    Bf16Matrix grad_x) override {
    for (int64_t i = 0; i < saved.rows; ++i) {
      for (int64_t j = 0; j < saved.cols; ++j) {
        const float x = FromBf16(At(saved, i, j));
        float value = FromBf16(At(grad_y, i, j));
        const Matrix m(&value, 1, 1);
        const absl::Status status =
            backend()->ActivateBackward(f, ConstMatrix(&x, 1, 1), m, m);
        if (!status.ok()) return status;
        At(grad_x, i, j) = ToBf16(value);
      }
    }
    return absl::OkStatus();
  }

 protected:
  absl::Status Call(const std::string&, Operation operation) override {
    return operation();
  }

 private:
  template <typename T>
  static T& At(const MatrixView<T>& m, int64_t i, int64_t j) {
    return m.data[i * m.stride + j];
  }
  // Element (i, j) of op(a) op(b).
  static float Sum(bool transpose_a, bool transpose_b, ConstBf16Matrix a,
                   ConstBf16Matrix b, int64_t i, int64_t j) {
    const int64_t inner = transpose_a ? a.rows : a.cols;
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k) {
      sum += double{FromBf16(transpose_a ? At(a, k, i) : At(a, i, k))} *
             FromBf16(transpose_b ? At(b, j, k) : At(b, k, j));
    }
    return static_cast<float>(sum);
  }
};

}  // namespace comera::kernels

#endif  // COMERA_TESTS_FAKES_BF16_BACKEND_H_
