// Operations that take more parts than one launch holds, beside the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "common/status_matchers.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/fakes/cuda/fake_cuda.h"

namespace comera::kernels {
namespace {

// The CPU, and the CUDA backend on the CUDA that runs on the processor.
class ManyPartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::Reset();
    fake_cuda::SetFiberOrder(fake_cuda::FiberOrder::kShuffled, 5);
    cpu_ = CreateCpuBackend({1});
    ASSERT_OK_AND_ASSIGN(cuda_, CreateCudaBackend({}));
  }

  // Runs `op` on both, on copies of the same values, and compares those.
  template <typename Op>
  void Compare(const std::vector<std::vector<float>>& values, const Op& op) {
    const std::vector<std::vector<float>> want = Run(cpu_.get(), values, op);
    const std::vector<std::vector<float>> got = Run(cuda_.get(), values, op);
    for (size_t i = 0; i < want.size(); ++i) {
      for (size_t j = 0; j < want[i].size(); ++j) {
        // Whole numbers may look like no number.
        if (std::memcmp(&got[i][j], &want[i][j], sizeof(float)) == 0) continue;
        ASSERT_NEAR(got[i][j], want[i][j], 2e-6 * (1 + std::fabs(want[i][j])))
            << "operand " << i << " at " << j;
      }
    }
  }

 private:
  template <typename Op>
  static std::vector<std::vector<float>> Run(
      Backend* backend, std::vector<std::vector<float>> values, const Op& op) {
    std::vector<float*> memory;
    for (const std::vector<float>& each : values) {
      const int64_t bytes = static_cast<int64_t>(each.size() * sizeof(float));
      auto at = backend->Allocate(bytes);
      EXPECT_OK(at.status());
      memory.push_back(static_cast<float*>(*at));
      EXPECT_OK(backend->CopyToDevice(*at, each.data(), bytes));
    }
    EXPECT_OK(op(backend, memory));
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_OK(backend->CopyToHost(
          values[i].data(), memory[i],
          static_cast<int64_t>(values[i].size() * sizeof(float))));
      backend->Free(memory[i]);
    }
    return values;
  }

  std::unique_ptr<Backend> cpu_, cuda_;
};

std::vector<float> Wave(int64_t size, double frequency, double shift = 0) {
  std::vector<float> values(size);
  for (int64_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(shift + std::sin(frequency * (i + 1)));
  }
  return values;
}

TEST_F(ManyPartsTest, AdamWOfManySegments) {
  std::vector<AdamWSegment> segments;
  int64_t offset = 1;
  for (int i = 0; i < 400; ++i) {
    // Every third continues the one before; every fifth leaves a hole.
    const int64_t size = i % 13;
    segments.push_back(
        {offset, size, i % 3 == 1 ? 0.1f : 0.05f, 0.01f * (i % 2)});
    offset += size + (i % 5 == 0 ? 3 : 0);
  }
  segments.push_back({offset, 9001, 0.2f, 0.1f});
  const int64_t size = offset + 9001 + 2;
  Compare(
      {Wave(size, 0.1), Wave(size, 0.7), Wave(size, 0.3), Wave(size, 0.2, 1.5)},
      [&](Backend* backend, const std::vector<float*>& at) {
        AdamWStep step;
        step.step = 7;
        return backend->AdamW(step, segments, {at[0], size}, {at[1], size},
                              {at[2], size}, {at[3], size});
      });
}

TEST_F(ManyPartsTest, ManyBonds) {
  std::vector<BondSpan> bonds;
  int64_t offset = 0;
  for (int i = 0; i < 500; ++i) {
    bonds.push_back({offset, i % 7});
    offset += i % 7 + 1;
  }
  Compare({Wave(offset, 0.4), std::vector<float>(500), std::vector<float>(500),
           Wave(500, 0.9), Wave(offset, 0.6)},
          [&](Backend* backend, const std::vector<float*>& at) {
            const absl::Status status =
                backend->BondNorms({at[0], offset}, bonds, 0.2f, at[1], at[2]);
            if (!status.ok()) return status;
            return backend->AddBondGradient({at[0], offset}, bonds, at[3], 0.2f,
                                            {at[4], offset});
          });
}

TEST_F(ManyPartsTest, LossOfMoreRowsThanGroupsOfThreads) {
  constexpr int64_t kRows = 5000, kCols = 3;
  std::vector<float> labels(kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    const int32_t label = static_cast<int32_t>(i % 4) - 1;
    std::memcpy(&labels[i], &label, sizeof(label));
  }
  Compare({Wave(kRows * kCols, 0.37), labels, {1, 2, 3}},
          [&](Backend* backend, const std::vector<float*>& at) {
            const Matrix logits(at[0], kRows, kCols);
            return backend->SoftmaxCrossEntropy(
                logits, {reinterpret_cast<int32_t*>(at[1]), kRows}, logits,
                at[2]);
          });
}

}  // namespace
}  // namespace comera::kernels
