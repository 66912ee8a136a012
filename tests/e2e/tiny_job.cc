// Writes a small corpus and the job file that trains on it.

#include "tests/e2e/tiny_job.h"

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::e2e {
namespace {

std::string JobFile(const std::string& corpus) {
  return absl::StrCat(R"(display_name: e2e
model:
  family: masked_lm
  layers: 1
  hidden: 32
  ffn: 64
  heads: 2
data:
  code_directory:
    roots: [")",
                      corpus, R"("]
    globs: ["*.py"]
    validation_fraction: 0.1
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 400}
  max_length: 48
compression:
  embedding: {ranks: [8]}
  attention: {ranks: [8]}
  ffn_up: {ranks: [8]}
  ffn_down: {ranks: [8]}
  head: {ranks: [8]}
  output: {ranks: [16]}
  compact_every_steps: 50
objective:
  early: {steps: 400, gamma: 0.02}
  late: {target_loss: 2.9, target_ratio: 0.95, max_steps: 4000}
optimizer:
  learning_rate_cores: 0.005
  learning_rate_ranks: 0.005
  learning_rate_other: 0.005
training: {batch_size: 16, seed: 1, report_every_steps: 5, validate_every_steps: 50, validation_samples: 64}
resources: {device: cpu, processes: 2, threads_per_process: 1}
checkpoint: {every_steps: 20}
)");
}

}  // namespace

std::string Binary(const std::string& path) {
  return absl::StrCat(std::getenv("TEST_SRCDIR"), "/comera/", path);
}

absl::Status WriteTinyCorpus(const std::string& folder) {
  const char* verbs[] = {"read", "write", "open", "close", "merge"};
  const char* nouns[] = {"buffer", "tensor", "socket", "record", "index"};
  RETURN_IF_ERROR(MakeDirectories(folder));
  unsigned state = 1;
  auto draw = [&state](unsigned n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % n;
  };
  for (int file = 0; file < 60; ++file) {
    std::ofstream out(absl::StrCat(folder, "/module_", file, ".py"));
    for (int i = 0; i < 60; ++i) {
      const std::string verb = verbs[draw(5)], noun = nouns[draw(5)];
      out << "def " << verb << "_" << noun << "(self, " << noun << "):\n"
          << "    if " << noun << " is None:\n        return None\n"
          << "    return self." << verb << "(" << noun << ")\n\n";
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> WriteTinyJob(const std::string& folder) {
  const std::string corpus = folder + "/corpus";
  RETURN_IF_ERROR(WriteTinyCorpus(corpus));
  const std::string job = folder + "/job.yaml";
  RETURN_IF_ERROR(WriteFileAtomically(job, JobFile(corpus)));
  return job;
}

}  // namespace comera::e2e
