// Splits and joins resource names, and checks their ids.

#include "proto/resource_names.h"

#include <algorithm>

namespace comera {
namespace {

constexpr std::string_view kJobs = "jobs/";
constexpr std::string_view kModels = "/models/";
constexpr std::string_view kAliases = "models/";
constexpr std::string_view kCheckpoints = "/checkpoints/";
constexpr std::string_view kSweeps = "sweeps/";
constexpr std::string_view kQueues = "queues/";
constexpr std::string_view kWorkers = "workers/";
constexpr size_t kMaxIdLength = 63;
// The limit keeps the step within int64.
constexpr size_t kMaxStepDigits = 18;

std::optional<std::string> IdAfter(std::string_view prefix,
                                   std::string_view name) {
  if (name.substr(0, prefix.size()) != prefix) return std::nullopt;
  name.remove_prefix(prefix.size());
  if (!IsResourceId(name)) return std::nullopt;
  return std::string(name);
}

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
  return IdAfter(kJobs, name);
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

bool IsModelAlias(std::string_view name) {
  if (name.substr(0, kAliases.size()) != kAliases) return false;
  name.remove_prefix(kAliases.size());
  const size_t split = name.find('@');
  return split != std::string_view::npos &&
         IsResourceId(name.substr(0, split)) &&
         IsResourceId(name.substr(split + 1));
}

std::string CheckpointName(std::string_view job, int64_t step) {
  return JobName(job).append(kCheckpoints).append(std::to_string(step));
}

std::optional<std::pair<std::string, int64_t>> ParseCheckpointName(
    std::string_view name) {
  const size_t split = name.find(kCheckpoints);
  if (split == std::string_view::npos) return std::nullopt;
  std::optional<std::string> job = ParseJobName(name.substr(0, split));
  const std::string_view step = name.substr(split + kCheckpoints.size());
  if (!job || step.empty() || step.size() > kMaxStepDigits ||
      (step.size() > 1 && step[0] == '0') ||
      !std::all_of(step.begin(), step.end(),
                   [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  return std::make_pair(*job, int64_t{std::stoll(std::string(step))});
}

std::string BestModelName(int64_t attempt) {
  return "best-" + std::to_string(attempt);
}

std::string FinishFile(int64_t attempt) {
  return "finish-" + std::to_string(attempt);
}

std::string SweepName(std::string_view id) {
  return std::string(kSweeps).append(id);
}

std::optional<std::string> ParseSweepName(std::string_view name) {
  return IdAfter(kSweeps, name);
}

std::string QueueName(std::string_view id) {
  return std::string(kQueues).append(id);
}

std::optional<std::string> ParseQueueName(std::string_view name) {
  return IdAfter(kQueues, name);
}

std::string WorkerName(std::string_view id) {
  return std::string(kWorkers).append(id);
}

std::optional<std::string> ParseWorkerName(std::string_view name) {
  return IdAfter(kWorkers, name);
}

}  // namespace comera
