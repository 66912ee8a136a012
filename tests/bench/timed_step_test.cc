// Checks that timed steps train, count memory, and match when replayed.

#include "tests/bench/timed_step.h"

#include <memory>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/bench/bench_job.h"
#include "tests/fakes/recording_backend.h"

namespace comera::bench {
namespace {

using ::testing::HasSubstr;

// The quickstart's job, small enough for a test.
absl::StatusOr<BenchJob> SmallJob(const std::string& method) {
  std::vector<std::string> settings = {
      "model.layers=1", "data.max_length=16",
      "data.tokenizer.train_vocabulary_size=1024"};
  if (method == "lte") {
    // A head for each sample.
    settings.push_back("compression.lte.heads=4");
    settings.push_back("compression.lte.scale=1");
  }
  return MakeBenchJob("docs/examples/quickstart_code_mlm.yaml", method,
                      /*batch_size=*/4, settings);
}

TEST(BenchJobTest, TakesMethodAndOverrides) {
  ASSERT_OK_AND_ASSIGN(const BenchJob job, SmallJob("dense"));
  EXPECT_EQ(job.spec.compression().method(), v1::CompressionSpec::DENSE);
  EXPECT_EQ(job.spec.model().layers(), 1);
  EXPECT_EQ(job.spec.training().batch_size(), 4);
  EXPECT_GT(job.vocabulary, 0);
}

TEST(BenchJobTest, NamesWhatIsWrong) {
  EXPECT_THAT(
      MakeBenchJob("six_encoder", "", 32, {"model.heads=7"}).status().message(),
      HasSubstr("model.heads"));
  EXPECT_FALSE(MakeBenchJob("six_encoder", "magic", 32, {}).ok());
  EXPECT_FALSE(MakeBenchJob("no_such.yaml", "", 32, {}).ok());
}

TEST(TimedStepTest, TrainsAndCounts) {
  const auto backend = kernels::CreateCpuBackend({1, 0});
  for (const char* method :
       {"comera", "dense", "galore", "lora", "lte", "cola"}) {
    SCOPED_TRACE(method);
    ASSERT_OK_AND_ASSIGN(const BenchJob job, SmallJob(method));
    StepOptions options;
    options.vocabulary = job.vocabulary;
    ASSERT_OK_AND_ASSIGN(const StepFigures f,
                         MeasureSteps(job.spec, options, backend.get()));
    EXPECT_EQ(f.tokens, 4 * 16);
    ASSERT_EQ(f.losses.size(), 2 + 5);
    EXPECT_LT(f.losses.back(), f.losses.front());
    EXPECT_GT(f.optimizer_state_bytes, 0);
    // Each float of gradient has at most two of moments.
    EXPECT_LE(f.optimizer_state_bytes, 2 * f.sync_bytes_per_step);
    EXPECT_GT(f.forward_seconds, 0);
    EXPECT_GT(f.optimizer_seconds, 0);
    EXPECT_EQ(f.replayed, 0);
    if (job.spec.compression().method() == v1::CompressionSpec::DENSE) {
      EXPECT_EQ(f.parameters, f.dense_parameters);
      EXPECT_EQ(f.optimizer_state_bytes, 8 * f.parameters);
    } else if (job.spec.compression().method() == v1::CompressionSpec::COMERA) {
      EXPECT_LT(f.parameters, f.dense_parameters);
    }
  }
}

TEST(TimedStepTest, ReplayedStepsAreEqual) {
  const auto cpu = kernels::CreateCpuBackend({1, 0});
  kernels::RecordingBackend backend(cpu.get());
  // GaLore's update runs on the host; its gradients are replayed.
  for (const char* method : {"comera", "dense", "galore"}) {
    SCOPED_TRACE(method);
    ASSERT_OK_AND_ASSIGN(const BenchJob job, SmallJob(method));
    StepOptions options;
    options.vocabulary = job.vocabulary;
    options.steps = 4;
    options.pad_batches = true;
    ASSERT_OK_AND_ASSIGN(const StepFigures eager,
                         MeasureSteps(job.spec, options, &backend));
    EXPECT_EQ(eager.replayed, 0);
    options.graph = true;
    ASSERT_OK_AND_ASSIGN(const StepFigures graph,
                         MeasureSteps(job.spec, options, &backend));
    // The first step is enqueued, the second captured.
    EXPECT_EQ(graph.replayed, 2 + 4 - 1);
    EXPECT_EQ(graph.losses, eager.losses);
  }
}

TEST(TimedStepTest, FreshBatchesDiffer) {
  const auto backend = kernels::CreateCpuBackend({1, 0});
  ASSERT_OK_AND_ASSIGN(
      const BenchJob job,
      MakeBenchJob("docs/examples/quickstart_code_mlm.yaml", "", 4,
                   {"model.layers=1", "data.max_length=16",
                    "optimizer.learning_rate_cores=1e-20",
                    "optimizer.learning_rate_ranks=1e-20",
                    "optimizer.learning_rate_other=1e-20", "model.dropout=0"}));
  StepOptions options;
  options.vocabulary = job.vocabulary;
  for (const bool fresh : {false, true}) {
    options.fresh_batches = fresh;
    ASSERT_OK_AND_ASSIGN(const StepFigures f,
                         MeasureSteps(job.spec, options, backend.get()));
    EXPECT_EQ(f.losses[1] != f.losses[0], fresh);
    EXPECT_EQ(f.losses[2] != f.losses[1], fresh);
  }
}

TEST(TimedStepTest, ShorterSequencesHoldFewerTokens) {
  const auto backend = kernels::CreateCpuBackend({1, 0});
  ASSERT_OK_AND_ASSIGN(const BenchJob job, SmallJob(""));
  StepOptions options;
  options.vocabulary = job.vocabulary;
  options.steps = 1;
  options.fill = 0.5;
  ASSERT_OK_AND_ASSIGN(const StepFigures f,
                       MeasureSteps(job.spec, options, backend.get()));
  EXPECT_LT(f.tokens, 4 * 16);
  EXPECT_GE(f.tokens, 4);
}

}  // namespace
}  // namespace comera::bench
