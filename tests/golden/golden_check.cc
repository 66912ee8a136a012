// Runs the check for each golden file's kind.

#include "tests/golden/golden_check.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/safetensors.h"
#include "common/status_macros.h"
#include "tests/golden/layer_checks.h"
#include "tests/golden/method_checks.h"
#include "tests/golden/model_checks.h"

namespace comera::golden {
namespace {

// Methods that the job file does not offer; Muon's steps are muon_test's.
constexpr const char* kNotOffered[] = {"adalomo_steps", "coat_fp8",
                                       "smmf_steps", "staged_growth"};
constexpr const char kMuon[] = "muon_steps";
constexpr const char* kDecoders[] = {"llama_step", "gpt2_step",
                                     "llama_tt_step"};

// The files of language models and of other methods name a topic.
absl::Status CheckTopic(const std::string& topic, const Safetensors& file,
                        const BackendFactory& make_backend, Report* report) {
  if (topic == "galore_steps") return CheckGalore(file, make_backend, report);
  if (topic == "lte_merge") return CheckLte(file, make_backend, report);
  if (topic == "cola_layer") return CheckCola(file, make_backend, report);
  if (topic == kMuon) {
    report->Skip("//tests/golden:muon_test compares this file");
    return absl::OkStatus();
  }
  for (const char* name : kDecoders) {
    if (topic != name) continue;
    ASSIGN_OR_RETURN(const auto backend, make_backend());
    return CheckDecoder(file, backend.get(), report);
  }
  for (const char* name : kNotOffered) {
    if (topic != name) continue;
    report->Skip("the job file does not offer this method");
    return absl::OkStatus();
  }
  return absl::DataLossError("metadata topic: unknown: " + topic);
}

absl::Status CheckFile(const std::string& path,
                       const BackendFactory& make_backend, Report* report) {
  const absl::StatusOr<Safetensors> file = Safetensors::Read(path);
  if (!file.ok()) return file.status();
  const auto topic = file->metadata().find("topic");
  if (topic != file->metadata().end()) {
    return CheckTopic(topic->second, *file, make_backend, report);
  }
  const auto kind = file->metadata().find("kind");
  if (kind == file->metadata().end()) {
    return absl::DataLossError("metadata kind: missing");
  }
  ASSIGN_OR_RETURN(auto backend, make_backend());
  if (kind->second == "tt_linear") {
    return CheckTtLinear(*file, std::move(backend), report);
  }
  if (kind->second == "ttm_embedding") {
    return CheckTtmEmbedding(*file, std::move(backend), report);
  }
  if (kind->second == "encoder_classifier") {
    return CheckEncoderClassifier(*file, backend.get(), report);
  }
  if (kind->second == "trajectory") {
    return CheckTrajectory(*file, backend.get(), report);
  }
  return absl::DataLossError("metadata kind: unknown: " + kind->second);
}

}  // namespace

absl::Status CheckFolder(const std::string& folder,
                         const BackendFactory& make_backend, Report* report) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") {
      paths.push_back(entry.path());
    }
  }
  if (paths.empty()) {
    return absl::NotFoundError("no *.safetensors file in " + folder);
  }
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    report->BeginFile(path.stem().string());
    const auto outcomes = [&] {
      return report->passed() + report->failed() + report->skipped();
    };
    const int before = outcomes();
    const absl::Status status = CheckFile(path.string(), make_backend, report);
    if (!status.ok()) {
      report->Check("file", false, status.ToString());
    } else if (outcomes() == before) {
      report->Check("file", false, "nothing was compared");
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::golden
