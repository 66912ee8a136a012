// Memory that the CUDA backend takes when an operation first needs it: scratch
// memory, and cuBLAS with its workspace.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/status_matchers.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/fakes/cuda/fake_cuda.h"

namespace comera::kernels {
namespace {

using ::absl::StatusCode;

constexpr int64_t kMiB = int64_t{1} << 20;

// On the CUDA that runs on the processor.
class FirstUseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::Reset();
    before_ = fake_cuda::CurrentCounts().device_bytes;
    ASSERT_OK_AND_ASSIGN(cuda_, CreateCudaBackend({}));
  }

  // Device memory in use that no caller of Allocate has.
  int64_t OwnBytes() const {
    return fake_cuda::CurrentCounts().device_bytes - before_ - allocated_;
  }

  Matrix Ones(int64_t rows, int64_t cols) {
    const int64_t bytes = rows * cols * int64_t{sizeof(float)};
    auto memory = cuda_->Allocate(bytes);
    EXPECT_OK(memory.status());
    allocated_ += bytes;
    const Matrix m(static_cast<float*>(*memory), rows, cols);
    EXPECT_OK(cuda_->Fill({m.data, rows * cols}, 1));
    return m;
  }

  // A square product, of which each element becomes `side`.
  absl::Status Multiply(int64_t side) {
    const Matrix a = Ones(side, side), c = Ones(side, side);
    return cuda_->Gemm(false, false, 1, a, a, 0, c);
  }

  int64_t before_ = 0, allocated_ = 0;
  std::unique_ptr<Backend> cuda_;
};

TEST_F(FirstUseTest, TakesNoMemoryBeforehand) {
  EXPECT_LT(OwnBytes(), kMiB / 8);
}

TEST_F(FirstUseTest, SmallProductsDoWithoutCublas) {
  ASSERT_OK(Multiply(32));
  ASSERT_OK(Multiply(160));  // 4.1 million multiply-adds
  EXPECT_LT(OwnBytes(), 2 * kMiB);
  ASSERT_OK(Multiply(164));  // 4.4 million
  EXPECT_GE(OwnBytes(), 32 * kMiB);
}

TEST_F(FirstUseTest, NothingIsCreatedWhileAGraphIsRecorded) {
  const Matrix a = Ones(164, 164), c = Ones(164, 164);
  ASSERT_OK(cuda_->BeginCapture());
  const absl::Status status = cuda_->Gemm(false, false, 1, a, a, 0, c);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("cuBLAS"), std::string::npos) << status;
  EXPECT_OK(cuda_->EndCapture().status());
  // The failure leaves nothing half done.
  ASSERT_OK(cuda_->Gemm(false, false, 1, a, a, 0, c));
  float element = 0;
  ASSERT_OK(cuda_->CopyToHost(&element, c.data, sizeof(element)));
  EXPECT_EQ(element, 164);
}

TEST_F(FirstUseTest, AGraphKeepsTheScratchMemoryThatItWasRecordedWith) {
  const Matrix few = Ones(64, 100), sums = Ones(1, 100);
  ASSERT_OK(cuda_->BiasGradient(few, Vector(sums.data, 100)));
  ASSERT_OK(cuda_->BeginCapture());
  ASSERT_OK(cuda_->BiasGradient(few, Vector(sums.data, 100)));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<StepGraph> graph,
                       cuda_->EndCapture());
  // Sorting so many row numbers, all of them 0, takes more than a MiB.
  constexpr int64_t kRows = 100000;
  const Matrix many = Ones(kRows, 1), table = Ones(3, 1),
               zeros = Ones(kRows, 1);
  ASSERT_OK(cuda_->Fill({zeros.data, kRows}, 0));
  const auto add = [&] {
    return cuda_->ScatterAddRows(
        many, {reinterpret_cast<const int32_t*>(zeros.data), kRows}, table);
  };
  const int64_t bytes = OwnBytes();
  ASSERT_OK(cuda_->BeginCapture());
  EXPECT_EQ(add().code(), StatusCode::kFailedPrecondition);
  EXPECT_OK(cuda_->EndCapture().status());
  EXPECT_EQ(OwnBytes(), bytes);
  ASSERT_OK(add());
  EXPECT_EQ(OwnBytes(), bytes + 2 * kMiB);
  ASSERT_OK(cuda_->Replay(*graph));
  std::vector<float> got(100);
  ASSERT_OK(cuda_->CopyToHost(got.data(), sums.data, 100 * sizeof(float)));
  EXPECT_EQ(got, std::vector<float>(100, 1 + 2 * 64));
}

TEST_F(FirstUseTest, ScratchMemoryThatCannotBeHadIsAnError) {
  const Matrix rows = Ones(64, 100), sums = Ones(1, 100);
  fake_cuda::FailAllocation(1);
  const absl::Status status = cuda_->BiasGradient(rows, Vector(sums.data, 100));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  // Nothing was added.
  ASSERT_OK(cuda_->BiasGradient(rows, Vector(sums.data, 100)));
  float sum = 0;
  ASSERT_OK(cuda_->CopyToHost(&sum, sums.data, sizeof(sum)));
  EXPECT_EQ(sum, 1 + 64);
}

}  // namespace
}  // namespace comera::kernels
