// Steps on a GPU launch what the golden traces say: their launches, products,
// alignment and bytes.
#include "tests/bench/launch_trace.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/bench/bench_job.h"

namespace comera::bench {
namespace {

LaunchTrace Trace(const std::string& model, int batch) {
  const absl::StatusOr<BenchJob> job =
      MakeBenchJob(model, "comera", batch, {"data.max_length=128"});
  EXPECT_OK(job.status());
  if (!job.ok()) return {};
  const absl::StatusOr<LaunchTrace> trace =
      TraceStep(job->spec, job->vocabulary, kernels::CudaPrecision::kBf16);
  EXPECT_OK(trace.status());
  return trace.value_or(LaunchTrace());
}

// The lines that only one of both has, with their signs.
std::string Difference(const std::string& golden, const std::string& actual) {
  const std::vector<std::string> before = absl::StrSplit(golden, '\n');
  const std::vector<std::string> after = absl::StrSplit(actual, '\n');
  std::string lines;
  const auto add = [&](const char* sign, const std::vector<std::string>& from,
                       const std::vector<std::string>& other) {
    for (const std::string& line : from) {
      if (std::find(other.begin(), other.end(), line) == other.end()) {
        absl::StrAppend(&lines, sign, line, "\n");
      }
    }
  };
  add("- ", before, after);
  add("+ ", after, before);
  return lines;
}

void ExpectGolden(const std::string& name, const LaunchTrace& trace) {
  std::ifstream file(absl::StrCat("tests/bench/traces/", name, ".txt"));
  std::stringstream golden;
  golden << file.rdbuf();
  const std::string text = trace.Text();
  EXPECT_EQ(Difference(golden.str(), text), "")
      << "If this is meant, tests/bench/traces/" << name << ".txt becomes:\n"
      << text;
}

// What the planner counts with is what the backend does.
void ExpectPlannerCountsLaunches(const LaunchTrace& trace) {
  const auto launches = static_cast<double>(trace.launches());
  EXPECT_NEAR(trace.predicted_launches / launches, 1, 0.15)
      << trace.predicted_launches << " predicted, " << launches << " made";
}

// In milliseconds on an H200. How far predictions are from measurements is
// tested for the steps that were measured (step_prediction_test).
TEST(LaunchTraceTest, StepsArePredictedToTakeNoLonger) {
  struct Prediction {
    const char* model;
    int batch;
    double milliseconds;
  };
  for (const Prediction& step :
       {Prediction{"six_encoder", 1, 1.6}, Prediction{"six_encoder", 32, 3.5},
        Prediction{"six_encoder", 64, 5.6}, Prediction{"six_encoder", 128, 9.6},
        Prediction{"codebert_large", 64, 34.5}}) {
    const LaunchTrace trace = Trace(step.model, step.batch);
    std::cout << absl::StrFormat(
        "%s, batch %d: predicted %.2f ms, %d launches, activations %.1f MiB, "
        "scratch memory %.1f MiB\n",
        step.model, step.batch, 1e3 * trace.predicted_seconds, trace.launches(),
        static_cast<double>(trace.activation_bytes) / (1 << 20),
        static_cast<double>(trace.backend_bytes) / (1 << 20));
    EXPECT_LE(1e3 * trace.predicted_seconds, step.milliseconds)
        << step.model << " " << step.batch;
    // Nothing is left out.
    EXPECT_GT(1e3 * trace.predicted_seconds, 0.9 * step.milliseconds)
        << step.model << " " << step.batch;
  }
}

TEST(LaunchTraceTest, SixEncoder) {
  for (const int batch : {1, 32, 128}) {
    SCOPED_TRACE(batch);
    const LaunchTrace trace = Trace("six_encoder", batch);
    ExpectGolden(absl::StrCat("six_encoder_", batch), trace);
    ExpectPlannerCountsLaunches(trace);
    // Some 500 when each layer contracted its cores by itself.
    EXPECT_LE(trace.launches(), 250);
    // The engine's own kernels do them all, so that cuBLAS is not created.
    EXPECT_TRUE(trace.products.empty());
    EXPECT_LT(trace.backend_bytes, 20 << 20);
  }
}

TEST(LaunchTraceTest, CodeBertLarge) {
  const LaunchTrace trace = Trace("codebert_large", 64);
  ExpectGolden("codebert_large_64", trace);
  ExpectPlannerCountsLaunches(trace);
  // 9,452 when the table was expanded for every chunk of labels and the hidden
  // layers were in memory 512 rows at a time; 3,784 when each layer contracted
  // its cores by itself; 1,578 when query, key and value had products of their
  // own.
  EXPECT_LE(trace.launches(), 1200);
  EXPECT_EQ(trace.misaligned_products, 0);
  // The table is expanded once, through three bonds, and projected back once:
  // each bond exchanges axes once forward and once back.
  EXPECT_EQ(trace.operations.at("SwapMiddleAxes").calls, 6);
  // Tokens and logits read that table.
  EXPECT_EQ(trace.operations.count("TtmLookup"), 0);
  EXPECT_EQ(trace.operations.count("TtmLookupBackward"), 0);
  EXPECT_EQ(trace.operations.at("SoftmaxCrossEntropy").calls, 1);
}

}  // namespace
}  // namespace comera::bench
