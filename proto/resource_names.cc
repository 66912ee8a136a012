#include "proto/resource_names.h"

#include <algorithm>

namespace comera {
namespace {

constexpr std::string_view kJobs = "jobs/";
constexpr std::string_view kModels = "/models/";
constexpr size_t kMaxIdLength = 63;

}  // namespace

bool IsResourceId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdLength &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

std::string JobName(std::string_view id) {
  return std::string(kJobs).append(id);
}

std::optional<std::string> ParseJobName(std::string_view name) {
  if (name.substr(0, kJobs.size()) != kJobs) return std::nullopt;
  name.remove_prefix(kJobs.size());
  if (!IsResourceId(name)) return std::nullopt;
  return std::string(name);
}

std::string ArtifactName(std::string_view job, std::string_view model) {
  return JobName(job).append(kModels).append(model);
}

std::optional<std::pair<std::string, std::string>> ParseArtifactName(
    std::string_view name) {
  const size_t split = name.find(kModels);
  if (split == std::string_view::npos) return std::nullopt;
  std::optional<std::string> job = ParseJobName(name.substr(0, split));
  const std::string_view model = name.substr(split + kModels.size());
  if (!job || !IsResourceId(model)) return std::nullopt;
  return std::make_pair(*job, std::string(model));
}

}  // namespace comera
