// Formats and parses resource names: `jobs/{job}`, `jobs/{job}/models/{model}`,
// `jobs/{job}/checkpoints/{step}`, `sweeps/{sweep}`, `queues/{queue}`,
// `workers/{worker}`.
#ifndef COMERA_PROTO_RESOURCE_NAMES_H_
#define COMERA_PROTO_RESOURCE_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace comera {

// Whether `id` may be the id of a job, model or worker: [a-z0-9-]{1,63}. Ids
// become file names, so nothing else may pass.
bool IsResourceId(std::string_view id);

std::string JobName(std::string_view id);
// The id in `jobs/{job}`; nothing if the name is malformed.
std::optional<std::string> ParseJobName(std::string_view name);

std::string ArtifactName(std::string_view job, std::string_view model);
// The job id and model id in `jobs/{job}/models/{model}`.
std::optional<std::pair<std::string, std::string>> ParseArtifactName(
    std::string_view name);

// Whether the name is an alias of a model, `models/{name}@{alias}`.
bool IsModelAlias(std::string_view name);

std::string CheckpointName(std::string_view job, int64_t step);
// The job id and step in `jobs/{job}/checkpoints/{step}`.
std::optional<std::pair<std::string, int64_t>> ParseCheckpointName(
    std::string_view name);
// The artifact that holds one file, the state at the end of a job's early
// stage.
inline constexpr char kEarlyStageArtifact[] = "early-stage";
inline constexpr char kTrainingStateFile[] = "training_state.checkpoint";

// The model that an attempt leaves when it is told to end before, e.g.
// "best-2", and the file in the job's work folder that tells it so.
std::string BestModelName(int64_t attempt);
std::string FinishFile(int64_t attempt);

std::string SweepName(std::string_view id);
// The id in `sweeps/{sweep}`; nothing if the name is malformed.
std::optional<std::string> ParseSweepName(std::string_view name);

std::string QueueName(std::string_view id);
// The id in `queues/{queue}`.
std::optional<std::string> ParseQueueName(std::string_view name);

std::string WorkerName(std::string_view id);
// The id in `workers/{worker}`.
std::optional<std::string> ParseWorkerName(std::string_view name);

}  // namespace comera

#endif  // COMERA_PROTO_RESOURCE_NAMES_H_
