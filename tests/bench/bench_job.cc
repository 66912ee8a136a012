// Loads the example jobs and puts them under the method to measure.

#include "tests/bench/bench_job.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/job_file.h"
#include "common/status_macros.h"
#include "proto/job_defaults.h"
#include "proto/validation/job_validation.h"

namespace comera::bench {
namespace {

struct Known {
  // The path from the project's root, which is also the path in runfiles.
  const char* path;
  int64_t vocabulary;
};

const std::map<std::string, Known>& KnownModels() {
  static const auto* known = new std::map<std::string, Known>{
      {"six_encoder", {"docs/examples/mnli_six_encoder.yaml", 30522}},
      {"codebert_large", {"docs/examples/codebert_large.yaml", 52000}},
      {"llama_60m", {"docs/examples/llama_60m.yaml", 32000}},
      {"dlrm", {"docs/examples/dlrm_criteo.yaml", 0}},
  };
  return *known;
}

// Only comera has a late stage, and no step of these benchmarks reaches it.
absl::Status SetMethod(const std::string& method, v1::JobSpec* spec) {
  v1::CompressionSpec::Method value;
  if (!v1::CompressionSpec::Method_Parse(absl::AsciiStrToUpper(method),
                                         &value)) {
    return absl::InvalidArgumentError(absl::StrCat("no method ", method));
  }
  spec->mutable_compression()->set_method(value);
  if (value == v1::CompressionSpec::COMERA) return absl::OkStatus();
  spec->clear_compression();
  spec->mutable_compression()->set_method(value);
  spec->mutable_objective()->clear_late();
  spec->mutable_objective()->mutable_early()->set_steps(1000);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BenchJob> MakeBenchJob(
    const std::string& model, const std::string& method, int batch_size,
    const std::vector<std::string>& overrides) {
  BenchJob job;
  std::string path = model;
  const auto found = KnownModels().find(model);
  if (found != KnownModels().end()) {
    path = found->second.path;
    job.vocabulary = found->second.vocabulary;
  }
  ASSIGN_OR_RETURN(job.spec, client::ReadJobFile(path));
  job.spec.mutable_training()->clear_phases();
  if (!method.empty()) RETURN_IF_ERROR(SetMethod(method, &job.spec));
  for (const std::string& each : overrides) {
    RETURN_IF_ERROR(client::SetJobField(each, "/", &job.spec));
  }
  if (batch_size > 0) job.spec.mutable_training()->set_batch_size(batch_size);
  if (job.spec.data().tokenizer().train_vocabulary_size() != 0) {
    job.vocabulary = job.spec.data().tokenizer().train_vocabulary_size();
  }
  std::string problems;
  for (const FieldViolation& each : ValidateJobSpec(job.spec)) {
    absl::StrAppend(&problems, "\n  ", each.field, " ", each.description);
  }
  if (!problems.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", problems));
  }
  job.spec = WithDefaults(std::move(job.spec));
  return job;
}

}  // namespace comera::bench
