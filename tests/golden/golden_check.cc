#include "tests/golden/golden_check.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "common/safetensors.h"
#include "tests/golden/layer_checks.h"
#include "tests/golden/model_checks.h"

namespace comera::golden {
namespace {

absl::Status CheckFile(const std::string& path, Report* report) {
  const absl::StatusOr<Safetensors> file = Safetensors::Read(path);
  if (!file.ok()) return file.status();
  const auto kind = file->metadata().find("kind");
  if (kind == file->metadata().end()) {
    return absl::DataLossError("metadata kind: missing");
  }
  if (kind->second == "tt_linear") return CheckTtLinear(*file, report);
  if (kind->second == "ttm_embedding") return CheckTtmEmbedding(*file, report);
  if (kind->second == "encoder_classifier") {
    return CheckEncoderClassifier(*file, report);
  }
  if (kind->second == "trajectory") return CheckTrajectory(*file, report);
  return absl::DataLossError("metadata kind: unknown: " + kind->second);
}

}  // namespace

absl::Status CheckFolder(const std::string& folder, Report* report) {
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
    const absl::Status status = CheckFile(path.string(), report);
    if (!status.ok()) {
      report->Check("file", false, status.ToString());
    } else if (report->passed() + report->failed() == before) {
      report->Check("file", false, "nothing was compared");
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::golden
