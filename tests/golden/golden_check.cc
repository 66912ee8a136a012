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
#include "tests/golden/model_checks.h"

namespace comera::golden {
namespace {

absl::Status CheckFile(const std::string& path,
                       const BackendFactory& make_backend, Report* report) {
  const absl::StatusOr<Safetensors> file = Safetensors::Read(path);
  if (!file.ok()) return file.status();
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
    const int before = report->passed() + report->failed();
    const absl::Status status = CheckFile(path.string(), make_backend, report);
    if (!status.ok()) {
      report->Check("file", false, status.ToString());
    } else if (report->passed() + report->failed() == before) {
      report->Check("file", false, "nothing was compared");
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::golden
