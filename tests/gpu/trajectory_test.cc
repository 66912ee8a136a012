// Checks that training on the CUDA backend follows the CPU's path.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/bench/bench_job.h"
#include "tests/bench/timed_step.h"

#ifdef COMERA_FAKE_CUDA
#include "tests/fakes/cuda/fake_cuda.h"
#endif

namespace comera::bench {
namespace {

using kernels::CudaPrecision;

#ifdef COMERA_FAKE_CUDA
const std::vector<CudaPrecision> kPrecisions = {CudaPrecision::kBf16};
constexpr int kSteps = 4;
constexpr int kBatch = 2;
const std::vector<std::string> kSmaller = {
    "model.layers=1", "data.max_length=8",
    "data.tokenizer.train_vocabulary_size=300"};
#else
const std::vector<CudaPrecision> kPrecisions = {
    CudaPrecision::kFp32, CudaPrecision::kTf32, CudaPrecision::kBf16};
constexpr int kSteps = 50;
constexpr int kBatch = 8;
const std::vector<std::string> kSmaller = {"data.max_length=32"};
#endif

struct Model {
  const char* name;
  const char* method;
  std::vector<std::string> overrides;
};

const Model kModels[] = {
    {"Comera", "comera", {}},
    // Ranks are below the heads' width, so that attention stays in rank space.
    {"ComeraInRankSpace", "comera", {"compression.attention.ranks=8"}},
    // Ranks of a stream of bfloat16.
    {"ComeraOfLargeRanks",
     "comera",
     {"compression.attention.ranks=72", "compression.ffn_up.ranks=72",
      "compression.ffn_down.ranks=72"}},
    {"Dense", "dense", {}},
};

// Trains a small masked language model, with dropout and clipping, on a new
// batch in each step.
absl::StatusOr<StepFigures> Train(const Model& model, bool graph,
                                  kernels::Backend* backend) {
  std::vector<std::string> overrides = model.overrides;
  overrides.insert(overrides.end(), kSmaller.begin(), kSmaller.end());
  ASSIGN_OR_RETURN(const BenchJob job,
                   MakeBenchJob("docs/examples/quickstart_code_mlm.yaml",
                                model.method, kBatch, overrides));
  StepOptions options;
  options.vocabulary = job.vocabulary;
  options.warm_up = 0;
  options.steps = kSteps;
  options.fresh_batches = true;
  options.graph = graph;
  options.pad_batches = backend->has_graphs();
  return MeasureSteps(job.spec, options, backend);
}

absl::StatusOr<StepFigures> TrainOnCuda(const Model& model, bool graph,
                                        CudaPrecision precision,
                                        bool overlap_launches = false) {
  kernels::CudaOptions options;
  options.precision = precision;
  options.overlap_launches = overlap_launches;
  ASSIGN_OR_RETURN(const auto backend, kernels::CreateCudaBackend(options));
  return Train(model, graph, backend.get());
}

absl::StatusOr<std::vector<double>> CudaLosses(const Model& model,
                                               CudaPrecision precision) {
  ASSIGN_OR_RETURN(StepFigures figures,
                   TrainOnCuda(model, /*graph=*/false, precision));
  return std::move(figures.losses);
}

// The CPU's losses, computed once for each model.
absl::StatusOr<std::vector<double>> CpuLosses(const Model& model) {
  static auto* const known =
      new std::map<std::string, absl::StatusOr<std::vector<double>>>;
  const auto [found, added] =
      known->try_emplace(model.name, std::vector<double>());
  if (added) {
    const auto backend = kernels::CreateCpuBackend({});
    absl::StatusOr<StepFigures> figures =
        Train(model, /*graph=*/false, backend.get());
    if (figures.ok()) {
      found->second = std::move(figures->losses);
    } else {
      found->second = figures.status();
    }
  }
  return found->second;
}

// The largest difference of two losses, relative to the first.
double Apart(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double apart = std::fabs(a[i] - b[i]) / std::fabs(a[i]);
    if (!(apart <= worst)) worst = apart;
  }
  return worst;
}

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

class TrajectoryTest : public ::testing::TestWithParam<Model> {};

TEST_P(TrajectoryTest, Float32StaysBesideTheProcessor) {
  ASSERT_OK_AND_ASSIGN(const auto cuda,
                       CudaLosses(GetParam(), CudaPrecision::kFp32));
  ASSERT_OK_AND_ASSIGN(const auto cpu, CpuLosses(GetParam()));
  EXPECT_LE(Apart(cpu, cuda), 1e-3);
}

TEST_P(TrajectoryTest, EqualRunsAreEqualToTheBit) {
  for (const CudaPrecision precision : kPrecisions) {
    ASSERT_OK_AND_ASSIGN(const auto once, CudaLosses(GetParam(), precision));
    ASSERT_OK_AND_ASSIGN(const auto again, CudaLosses(GetParam(), precision));
    EXPECT_EQ(once, again);
  }
}

TEST_P(TrajectoryTest, ReplayedStepsAreEqualToTheBit) {
  for (const CudaPrecision precision : kPrecisions) {
    ASSERT_OK_AND_ASSIGN(const auto eager, CudaLosses(GetParam(), precision));
    ASSERT_OK_AND_ASSIGN(const StepFigures graph,
                         TrainOnCuda(GetParam(), /*graph=*/true, precision));
    EXPECT_EQ(graph.losses, eager);
    // The first two steps of a shape are not replayed.
    EXPECT_GE(graph.replayed, kSteps / 2);
  }
}

TEST_P(TrajectoryTest, OverlappedLaunchesAreEqualToTheBit) {
  for (const CudaPrecision precision : kPrecisions) {
    ASSERT_OK_AND_ASSIGN(const auto eager, CudaLosses(GetParam(), precision));
    for (const bool graph : {false, true}) {
      ASSERT_OK_AND_ASSIGN(const StepFigures overlapped,
                           TrainOnCuda(GetParam(), graph, precision,
                                       /*overlap_launches=*/true));
      EXPECT_EQ(overlapped.losses, eager);
      if (graph) {
        EXPECT_GE(overlapped.replayed, kSteps / 2);
      }
    }
  }
}

#ifdef COMERA_FAKE_CUDA
// On a device nothing tells which way a kernel was launched.
TEST_P(TrajectoryTest, AllLaunchesOverlapOrNone) {
  for (const bool overlap : {false, true}) {
    const fake_cuda::Counts before = fake_cuda::CurrentCounts();
    ASSERT_OK(
        TrainOnCuda(GetParam(), /*graph=*/true, CudaPrecision::kBf16, overlap));
    const fake_cuda::Counts after = fake_cuda::CurrentCounts();
    EXPECT_GT(after.launches, before.launches);
    EXPECT_EQ(after.in_turn == before.in_turn, overlap);
  }
}
#endif

TEST_P(TrajectoryTest, ShorterMantissasStayNear) {
  ASSERT_OK_AND_ASSIGN(const auto tf32,
                       CudaLosses(GetParam(), CudaPrecision::kTf32));
  ASSERT_OK_AND_ASSIGN(const auto bf16,
                       CudaLosses(GetParam(), CudaPrecision::kBf16));
  ASSERT_OK_AND_ASSIGN(const auto cpu, CpuLosses(GetParam()));
  EXPECT_LE(Apart(cpu, tf32), 1e-2);
  EXPECT_LE(Apart(cpu, bf16), 3e-2);
  // The products really have different precisions.
  EXPECT_GT(Apart(tf32, bf16), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, TrajectoryTest, ::testing::ValuesIn(kModels),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace comera::bench
