// Operations on bfloat16 in memory, against plain loops on the host.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/conformance/backend/harness.h"
#include "tests/fakes/bf16_backend.h"

namespace comera::kernels {
namespace {

// Three matrices of floats and their roundings, on a backend.
class Operands {
 public:
  static constexpr int64_t kFloats = 40000;

  explicit Operands(Backend* backend) : backend_(backend) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(3 * kFloats);
    for (float& value : values) value = uniform(random);
    const absl::StatusOr<void*> memory = backend->Allocate(Bytes());
    EXPECT_OK(memory);
    floats_ = static_cast<float*>(*memory);
    bf16_ = reinterpret_cast<uint16_t*>(floats_ + 3 * kFloats);
    EXPECT_OK(backend->CopyToDevice(floats_, values.data(), 3 * kFloats * 4));
  }
  ~Operands() { backend_->Free(floats_); }

  Matrix Floats(int i, int64_t rows, int64_t cols, int64_t stride) const {
    return Matrix(floats_ + i * kFloats, rows, cols, stride);
  }
  Bf16Matrix Bf16(int i, int64_t rows, int64_t cols, int64_t stride) const {
    return Bf16Matrix(bf16_ + i * kFloats, rows, cols, stride);
  }
  // All numbers, the rounded ones widened.
  std::vector<float> Read() const {
    std::vector<float> values(Bytes() / 4);
    EXPECT_OK(backend_->CopyToHost(values.data(), floats_, Bytes()));
    EXPECT_OK(backend_->Synchronize());
    std::vector<float> all(values.begin(), values.begin() + 3 * kFloats);
    const auto* bits =
        reinterpret_cast<const uint16_t*>(values.data() + 3 * kFloats);
    for (int64_t i = 0; i < 3 * kFloats; ++i) all.push_back(FromBf16(bits[i]));
    return all;
  }

 private:
  static int64_t Bytes() { return 3 * kFloats * 6; }

  Backend* const backend_;
  float* floats_;
  uint16_t* bf16_;
};

struct Sizes {
  int64_t rows, cols, inner, gap;  // gap: behind every row
};

class Bf16Test : public ::testing::Test {
 public:
  explicit Bf16Test(BackendFactory factory) : factory_(std::move(factory)) {}

  void TestBody() override {
    const std::unique_ptr<Backend> backend = factory_(1);
    ASSERT_TRUE(backend->has_bf16());
    const auto cpu = CreateCpuBackend({1, 0});
    Bf16Backend expected(cpu.get());
    for (const Sizes& sizes : {Sizes{1, 1, 1, 0}, Sizes{64, 40, 24, 0},
                               Sizes{33, 17, 129, 3}, Sizes{70, 128, 136, 8}}) {
      for (int transposed = 0; transposed < 4; ++transposed) {
        SCOPED_TRACE(::testing::Message()
                     << sizes.rows << " x " << sizes.cols << " x "
                     << sizes.inner << ", " << transposed);
        const std::vector<float> got = Run(backend.get(), sizes, transposed);
        const std::vector<float> want = Run(&expected, sizes, transposed);
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i) {
          // Sums differ in their last digits, and then some of their roundings.
          ASSERT_NEAR(got[i], want[i], 1e-2 * std::fabs(want[i]) + 1e-3) << i;
        }
      }
    }
  }

 private:
  static std::vector<float> Run(Backend* backend, const Sizes& s,
                                int transposed) {
    const bool turn_a = transposed % 2 == 1, turn_b = transposed / 2 == 1;
    const Operands operands(backend);
    const auto matrix = [&](int i, int64_t rows, int64_t cols, bool turn) {
      if (turn) std::swap(rows, cols);
      const int64_t stride = cols + s.gap;
      const Bf16Matrix rounded = operands.Bf16(i, rows, cols, stride);
      EXPECT_OK(
          backend->Round(operands.Floats(i, rows, cols, stride), rounded));
      return rounded;
    };
    const Bf16Matrix a = matrix(0, s.rows, s.inner, turn_a);
    const Bf16Matrix b = matrix(1, s.inner, s.cols, turn_b);
    const Matrix sums = operands.Floats(2, s.rows, s.cols, s.cols + s.gap);
    EXPECT_OK(backend->GemmBf16(turn_a, turn_b, a, b, 0.5f, sums));
    const Bf16Matrix c = operands.Bf16(2, s.rows, s.cols, s.cols + s.gap);
    EXPECT_OK(backend->GemmToBf16(turn_a, turn_b, a, b, 0, c, {}));
    EXPECT_OK(backend->GemmToBf16(turn_a, turn_b, a, b, 0.5f, c, {}));
    // a times a third of b's columns, thrice.
    const int64_t part = std::max<int64_t>(s.cols / 3, 1);
    const int64_t count = std::min<int64_t>(s.cols, 3);
    const auto columns = [&](Bf16Matrix m, bool turned) {
      return turned ? Bf16Matrix(m.data, part, m.cols, m.stride)
                    : Bf16Matrix(m.data, m.rows, part, m.stride);
    };
    EXPECT_OK(backend->GemmToBf16(
        turn_a, turn_b, a, columns(b, turn_b), 1, columns(c, false),
        {count, 0, turn_b ? part * b.stride : part, part}));
    // Pairs of matrices that both lie behind each other; with a tenth of the
    // rows, all of them lie within the first result.
    const int64_t rows = std::max<int64_t>(s.rows / 10, 1);
    const int64_t pairs = std::min<int64_t>(s.rows, 3);
    const auto part_of = [&](Bf16Matrix m, bool turned) {
      return turned ? Bf16Matrix(m.data, m.rows, rows, m.stride)
                    : Bf16Matrix(m.data, rows, m.cols, m.stride);
    };
    EXPECT_OK(backend->GemmToBf16(
        turn_a, turn_b, part_of(a, turn_a), b, 0, part_of(c, false),
        {pairs, turn_a ? rows : rows * a.stride, 0, rows * c.stride}));
    EXPECT_OK(
        backend->Widen(c, operands.Floats(0, s.rows, s.cols, s.cols + s.gap)));
    // c is the input saved, and its gradient is written in place.
    const Bf16Matrix grad(operands.Bf16(0, s.rows, s.cols, s.cols + s.gap));
    EXPECT_OK(backend->ActivateBf16(Activation::kGelu, c, grad));
    EXPECT_OK(backend->ActivateBackwardBf16(Activation::kGelu, c, grad, grad));
    // Rounded among others, once what it reads is there.
    const Matrix source = operands.Floats(1, s.rows, s.cols, s.cols + s.gap);
    EXPECT_OK(backend->BeginTogether());
    EXPECT_OK(backend->Fill({source.data, s.cols}, 3));
    EXPECT_OK(backend->Axpy(0.25f, {sums.data, s.cols}, {source.data, s.cols}));
    EXPECT_OK(backend->Round(source,
                             operands.Bf16(1, s.rows, s.cols, s.cols + s.gap)));
    EXPECT_OK(backend->EndTogether());
    return operands.Read();
  }

  const BackendFactory factory_;
};

}  // namespace

void RegisterBf16(const std::string& name, BackendFactory factory) {
  ::testing::RegisterTest(
      (name + "BackendTest").c_str(), "Bf16InMemory", nullptr, nullptr,
      __FILE__, __LINE__,
      [factory]() -> ::testing::Test* { return new Bf16Test(factory); });
}

}  // namespace comera::kernels
