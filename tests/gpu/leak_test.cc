// Checks device memory: steps allocate none, and a backend frees all of it.
#include <cstdint>
#include <memory>
#include <string>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/bench/bench_job.h"
#include "tests/bench/timed_step.h"

namespace comera::bench {
namespace {

// Returns the free memory after `steps` steps.
absl::StatusOr<int64_t> FreeAfter(int steps) {
  ASSIGN_OR_RETURN(
      const BenchJob job,
      MakeBenchJob("docs/examples/quickstart_code_mlm.yaml", "comera",
                   /*batch_size=*/2,
                   {"model.layers=1", "data.max_length=8",
                    "data.tokenizer.train_vocabulary_size=1024"}));
  StepOptions options;
  options.vocabulary = job.vocabulary;
  options.warm_up = 0;
  options.steps = steps;
  options.fresh_batches = true;
  ASSIGN_OR_RETURN(const auto backend, kernels::CreateCudaBackend({}));
  ASSIGN_OR_RETURN(const StepFigures figures,
                   MeasureSteps(job.spec, options, backend.get()));
  return figures.free_bytes;
}

TEST(LeakTest, StepsTakeNoMemory) {
  // Kernels are loaded, and scratch memory grows, at their first use, which may
  // come with a later batch.
  ASSERT_OK_AND_ASSIGN(const int64_t warm, FreeAfter(8));
  EXPECT_GT(warm, 0);
  ASSERT_OK_AND_ASSIGN(const int64_t few, FreeAfter(4));
  ASSERT_OK_AND_ASSIGN(const int64_t many, FreeAfter(8));
  EXPECT_EQ(few, many);
}

TEST(LeakTest, BackendsGiveTheirMemoryBack) {
  // Sees the device from outside, and keeps the driver's context alive.
  ASSERT_OK_AND_ASSIGN(const auto probe, kernels::CreateCudaBackend({}));
  // The first run loads code onto the device, where it stays.
  ASSERT_OK(FreeAfter(1).status());
  ASSERT_OK_AND_ASSIGN(const int64_t before, probe->FreeBytes());
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK_AND_ASSIGN(const int64_t during, FreeAfter(1));
    EXPECT_LT(during, before);
    ASSERT_OK_AND_ASSIGN(const int64_t after, probe->FreeBytes());
    ASSERT_EQ(after, before) << "round " << i;
  }
}

}  // namespace
}  // namespace comera::bench
