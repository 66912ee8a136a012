// Random operations on few matrices, one by one and between BeginTogether and
// EndTogether: who needs whose result must not be forgotten.
#include "kernels/together.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/conformance/backend/harness.h"

namespace comera::kernels {
namespace {

constexpr int kMatrices = 5;
constexpr int64_t kEdge = 75;
constexpr int64_t kFloats = kMatrices * kEdge * kEdge;

// Draws operations; the same ones again from the same seed.
class Drawn {
 public:
  Drawn(Backend* backend, float* memory, unsigned seed)
      : backend_(backend), memory_(memory), random_(seed) {}

  absl::Status One() {
    const int64_t m = Below(40) + 1, n = Below(40) + 1, k = Below(40) + 1;
    // Not two of one operation in one matrix: operands do not overlap.
    std::vector<int> order = {0, 1, 2, 3, 4};
    std::shuffle(order.begin(), order.end(), random_);
    switch (Below(9)) {
      case 0:
        return backend_->Fill(Row(order[0], m * n), 0.5f);
      case 1:
        return backend_->Copy(Row(order[0], m * n).data,
                              Row(order[1], m * n).data, 4 * m * n);
      case 2:
        return backend_->Axpy(-0.3f, Row(order[1], m * n),
                              Row(order[0], m * n));
      case 3:
        return backend_->FoldCore(View(order[1], m, n), Row(order[2], n), 0.1f,
                                  View(order[0], m, n));
      case 4:
        return backend_->FoldCoreBackward(
            View(order[1], m, n), Row(order[2], n), 0.1f, View(order[3], m, n),
            View(order[0], m, n), Row(order[4], n));
      case 5:
        return backend_->CopyRows(View(order[1], m, n), View(order[0], m, n));
      default: {
        const bool a = Below(2) == 0, b = Below(2) == 0;
        const Matrix left = a ? View(order[1], k, m) : View(order[1], m, k);
        const Matrix right = b ? View(order[2], n, k) : View(order[2], k, n);
        return backend_->Gemm(a, b, 0.2f, left, right, Below(2) * 0.5f,
                              View(order[0], m, n));
      }
    }
  }

 private:
  int64_t Below(int64_t end) { return static_cast<int64_t>(random_() % end); }
  Vector Row(int matrix, int64_t size) {
    return {memory_ + matrix * kEdge * kEdge + Below(kEdge), size};
  }
  Matrix View(int matrix, int64_t rows, int64_t cols) {
    float* const at = memory_ + matrix * kEdge * kEdge;
    return Matrix(at + Below(kEdge - rows) * kEdge + Below(kEdge - cols), rows,
                  cols, kEdge);
  }

  Backend* const backend_;
  float* const memory_;
  std::mt19937 random_;
};

class TogetherTest : public ::testing::Test {
 public:
  explicit TogetherTest(BackendFactory factory)
      : factory_(std::move(factory)) {}

  void TestBody() override {
    for (unsigned seed = 1; seed <= 12; ++seed) {
      const std::vector<float> expected = Run(seed, 1, /*together=*/false);
      for (const int threads : {1, 2}) {
        const std::vector<float> values = Run(seed, threads, true);
        ASSERT_EQ(values.size(), expected.size());
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_NEAR(values[i], expected[i],
                      1e-4 * (1 + std::fabs(expected[i])))
              << "seed " << seed << ", element " << i;
        }
        EXPECT_EQ(values, Run(seed, threads, true));
      }
    }
  }

 private:
  std::vector<float> Run(unsigned seed, int threads, bool together) {
    const auto backend = factory_(threads);
    std::vector<float> values(kFloats);
    std::mt19937 random(seed);
    for (float& each : values) {
      each = static_cast<float>(random() % 2001) / 1000 - 1;
    }
    const auto memory = backend->Allocate(4 * kFloats);
    EXPECT_OK(memory);
    EXPECT_OK(backend->CopyToDevice(*memory, values.data(), 4 * kFloats));
    Drawn drawn(backend.get(), static_cast<float*>(*memory), seed);
    const auto some = [&]() -> absl::Status {
      for (int i = 0; i < 45; ++i) RETURN_IF_ERROR(drawn.One());
      return absl::OkStatus();
    };
    EXPECT_OK(together ? RunTogether(backend.get(), some) : some());
    EXPECT_OK(backend->CopyToHost(values.data(), *memory, 4 * kFloats));
    EXPECT_OK(backend->Synchronize());
    backend->Free(*memory);
    return values;
  }

  const BackendFactory factory_;
};

}  // namespace

void RegisterTogether(const std::string& name, BackendFactory factory) {
  ::testing::RegisterTest(
      (name + "BackendTest").c_str(), "Together", nullptr, nullptr, __FILE__,
      __LINE__,
      [factory]() -> ::testing::Test* { return new TogetherTest(factory); });
}

}  // namespace comera::kernels
