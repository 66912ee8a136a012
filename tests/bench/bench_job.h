// The jobs that benchmarks measure: the example job files, under any method.
#ifndef COMERA_TESTS_BENCH_BENCH_JOB_H_
#define COMERA_TESTS_BENCH_BENCH_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"

namespace comera::bench {

// A job to measure.
struct BenchJob {
  // The specification; valid, with its defaults filled in.
  v1::JobSpec spec;
  // The size of the vocabulary, as in the tokenizer's file; 0 for a model
  // without words.
  int64_t vocabulary = 0;
};

// `model` is six_encoder, codebert_large, llama_60m, dlrm, or the path of a job file.
// `method` is a CompressionSpec.Method in lower case; empty keeps the file's.
// `overrides` are `field.path=value` as for `comera submit --set`. NotFound:
// there is no such model or file. InvalidArgument: the job is invalid; every
// violation is named.
absl::StatusOr<BenchJob> MakeBenchJob(
    const std::string& model, const std::string& method, int batch_size,
    const std::vector<std::string>& overrides);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_BENCH_JOB_H_
