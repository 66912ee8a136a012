// Opens a code_directory as a job would and prints what it took:
//   bazel run //tests/worker/trainer/data:corpus_report --
//       VOCABULARY LENGTH MAX_BYTES CACHE_DIR ROOT...
// CACHE_DIR "" runs without a cache.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/open_training_data.h"

namespace {

int Report(int argc, char** argv) {
  comera::v1::JobSpec spec;
  int32_t vocabulary = 0;
  int32_t length = 0;
  int64_t max_bytes = 0;
  if (argc < 6 || !absl::SimpleAtoi(argv[1], &vocabulary) ||
      !absl::SimpleAtoi(argv[2], &length) ||
      !absl::SimpleAtoi(argv[3], &max_bytes)) {
    std::fprintf(stderr,
                 "usage: corpus_report VOCABULARY LENGTH MAX_BYTES CACHE_DIR "
                 "ROOT...\n");
    return 2;
  }
  spec.mutable_model()->set_family(comera::v1::ModelSpec::MASKED_LM);
  spec.mutable_data()->set_max_length(length);
  comera::v1::TokenizerSpec* tokenizer =
      spec.mutable_data()->mutable_tokenizer();
  tokenizer->set_kind(comera::v1::TokenizerSpec::BYTE_BPE);
  tokenizer->set_train_vocabulary_size(vocabulary);
  comera::v1::CodeDirectory* code =
      spec.mutable_data()->mutable_code_directory();
  code->set_max_bytes(max_bytes);
  for (const char* glob : {"*.h", "*.py"}) code->add_globs(glob);
  for (int i = 5; i < argc; ++i) code->add_roots(argv[i]);

  const absl::Time start = absl::Now();
  comera::trainer::TrainingData::Options options;
  options.cache_dir = argv[4];
  options.on_activity = [start](const std::string& what) {
    std::printf("%7.2f s  %s\n", absl::ToDoubleSeconds(absl::Now() - start),
                what.c_str());
  };
  const auto data = comera::trainer::OpenTrainingData(spec, options);
  if (!data.ok()) {
    std::fprintf(stderr, "%s\n", data.status().ToString().c_str());
    return 1;
  }
  std::printf(
      "opened in %.2f s: %lld training and %lld validation samples, "
      "vocabulary %d, baseline loss %.4f nats\n",
      absl::ToDoubleSeconds(absl::Now() - start),
      static_cast<long long>((*data)->train_samples()),
      static_cast<long long>((*data)->validation_samples()),
      (*data)->vocabulary_size(), (*data)->baseline_loss());

  constexpr int kBatches = 100;
  comera::trainer::Batch batch;
  int64_t labels = 0;
  double tokens = 0;
  const absl::Time first_batch = absl::Now();
  for (int step = 0; step < kBatches; ++step) {
    if (!(*data)->TrainBatch(step, 32, 0, 1, &batch).ok()) return 1;
    labels += static_cast<int64_t>(batch.labels.size());
    for (const float token : batch.mask) tokens += token;
  }
  std::printf("batch of 32: %.3f ms, %.1f labels, %.1f%% of positions used\n",
              absl::ToDoubleMilliseconds(absl::Now() - first_batch) / kBatches,
              static_cast<double>(labels) / kBatches,
              100.0 * tokens / (32.0 * length * kBatches));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return Report(argc, argv); }
