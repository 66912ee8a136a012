// Measures kernels on the shapes of the six-encoder (batch 32, length 128).
// Counters: GFLOP/s, or GB/s of memory that must move.
//   bazel run //tests/bench:ops -- --benchmark_filter=Gemm
//   bazel run --config=cuda //tests/bench:ops -- --device=cuda --precision=bf16
#include <benchmark/benchmark.h>

#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "tests/bench/bench_device.h"
#include "tests/bench/ops_bench.h"

int main(int argc, char** argv) {
  std::string device = "cpu", precision = "fp32";
  benchmark::Initialize(&argc, argv);  // removes its own flags
  CLI::App app("Kernels on the shapes of the six-encoder");
  comera::bench::AddDeviceFlags(&app, &device, &precision);
  CLI11_PARSE(app, argc, argv);
  comera::trainer::BackendOptions& options = comera::kernels::OpsOptions();
  options.device = comera::bench::ParseDevice(device);
  options.precision = comera::bench::ParsePrecision(precision);
  const auto backend = comera::trainer::MakeBackend(options);
  if (!backend.ok()) {
    std::cerr << backend.status().message() << "\n";
    return 1;
  }
  benchmark::AddCustomContext("device",
                              comera::trainer::DeviceName(options).value());
  benchmark::AddCustomContext("precision", precision);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
