// Names of resources: `jobs/{job}` and `jobs/{job}/models/{model}`.
#ifndef COMERA_PROTO_RESOURCE_NAMES_H_
#define COMERA_PROTO_RESOURCE_NAMES_H_

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
// Job id and model id in `jobs/{job}/models/{model}`.
std::optional<std::pair<std::string, std::string>> ParseArtifactName(
    std::string_view name);

}  // namespace comera

#endif  // COMERA_PROTO_RESOURCE_NAMES_H_
