// Makes the API's models and checkpoints from jobs, page by page.
#include "server/api/model_listing.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/resource_names.h"

namespace comera::server {
namespace {

using Json = nlohmann::json;

constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 1000;
constexpr size_t kMaxPageBytes = 2 << 20;
constexpr int64_t kParameterBytes = 4;
constexpr char kWeights[] = "model.safetensors";
constexpr int kMaxLayers = 10000;
constexpr size_t kMaxRanks = 64;
constexpr int kMaxFigures = 64;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxSearchBytes = 256;

absl::StatusOr<int> PageSize(int asked) {
  if (asked < 0 || asked > kMaxPage) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: must be 0 to ", kMaxPage));
  }
  return asked == 0 ? kDefaultPage : asked;
}

// Where a list goes on: two numbers, in which list.
struct Position {
  int64_t first = 0;
  int64_t second = 0;
};

std::string Token(const std::string& list, const Position& position) {
  return absl::WebSafeBase64Escape(absl::StrCat(Sha256Hex(list).substr(0, 16),
                                                ":", position.first, ":",
                                                position.second));
}

absl::StatusOr<Position> ParseToken(const std::string& list,
                                    const std::string& token) {
  std::string text;
  Position position;
  const bool decoded =
      token.size() < 200 && absl::WebSafeBase64Unescape(token, &text);
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (!decoded || parts.size() != 3 ||
      !absl::SimpleAtoi(parts[1], &position.first) ||
      !absl::SimpleAtoi(parts[2], &position.second) || position.first < 0 ||
      position.second < 0) {
    return absl::InvalidArgumentError("page_token: not one of this server's");
  }
  if (parts[0] != Sha256Hex(list).substr(0, 16)) {
    return absl::InvalidArgumentError("page_token: belongs to another list");
  }
  return position;
}

std::string ListKey(const v1::ListModelsRequest& request) {
  std::vector<std::string> labels;
  for (const auto& [key, value] : request.labels()) {
    labels.push_back(absl::StrCat(key.size(), ":", key, "=", value));
  }
  std::sort(labels.begin(), labels.end());
  std::string text = absl::StrCat("models\n", request.job(), "\n",
                                  request.kept(), "\n", request.text());
  for (const std::string& label : labels) absl::StrAppend(&text, "\n", label);
  return text;
}

bool HasLabels(const v1::Job& job, const v1::ListModelsRequest& request) {
  const auto& labels = job.spec().labels();
  return std::all_of(request.labels().begin(), request.labels().end(),
                     [&](const auto& wanted) {
                       const auto it = labels.find(wanted.first);
                       return it != labels.end() && it->second == wanted.second;
                     });
}

bool IsKept(const v1::Artifact& model) {
  return model.pinned() || !model.aliases().empty();
}

// Whether the model, or its job by `job_text`, has the words; all are in lower
// case.
bool HasText(const v1::Artifact& model, const std::string& job_text,
             const std::string& words) {
  return absl::StrContains(job_text, words) ||
         absl::StrContains(absl::AsciiStrToLower(model.name()), words) ||
         std::any_of(model.aliases().begin(), model.aliases().end(),
                     [&](const std::string& alias) {
                       return absl::StrContains(alias, words);
                     });
}

// "target-2" is that of index 1; others of none.
int TargetIndex(const std::string& id) {
  int number = 0;
  const absl::string_view text(id.data(), id.size());
  if (!absl::StartsWith(text, "target-") ||
      !absl::SimpleAtoi(text.substr(7), &number) || number < 1) {
    return -1;
  }
  return number - 1;
}

// The size of the model's weights on disk, header included; without a file of
// that kind, that of its parameters.
int64_t FileBytes(const v1::Artifact& model) {
  for (const v1::ArtifactFile& file : model.files()) {
    if (file.path() == kWeights) return file.size_bytes();
  }
  return kParameterBytes * model.size_parameters();
}

bool IsBeaten(const v1::Artifact& model, const v1::Artifact& by) {
  const bool no_worse = by.validation_loss() <= model.validation_loss() &&
                        by.size_parameters() <= model.size_parameters();
  return no_worse && (by.validation_loss() < model.validation_loss() ||
                      by.size_parameters() < model.size_parameters());
}

}  // namespace

v1::Model ShowModel(const v1::Job& job, int index) {
  const v1::Artifact& artifact = job.models(index);
  v1::Model model;
  model.set_name(artifact.name());
  *model.mutable_artifact() = artifact;
  *model.mutable_job_labels() = job.spec().labels();
  model.set_job_display_name(job.spec().display_name());
  model.set_user(job.user());
  model.set_size_bytes(FileBytes(artifact));
  model.set_dense_parameters(job.progress().dense_parameters());
  const auto ids = ParseArtifactName(artifact.name());
  model.set_target_index(ids ? TargetIndex(ids->second) : -1);
  model.set_pareto_optimal(std::none_of(
      job.models().begin(), job.models().end(),
      [&](const v1::Artifact& other) { return IsBeaten(artifact, other); }));
  return model;
}

absl::StatusOr<v1::ListModelsResponse> ListModels(
    const JobDirectory& directory, const v1::ListModelsRequest& request,
    const JobDirectory::Filter& visible) {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  if (!request.job().empty() && !ParseJobName(request.job())) {
    return absl::InvalidArgumentError("job: must be jobs/{job}");
  }
  if (request.text().size() > kMaxSearchBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("text: longer than ", kMaxSearchBytes, " bytes"));
  }
  const std::string words = absl::AsciiStrToLower(request.text());
  const std::string list = ListKey(request);
  // From this job's model of this index on.
  Position from{std::numeric_limits<int64_t>::max(), 0};
  if (!request.page_token().empty()) {
    ASSIGN_OR_RETURN(from, ParseToken(list, request.page_token()));
  }
  v1::ListModelsResponse response;
  size_t bytes = 0;
  // False: the page is full.
  const auto add = [&](const JobDirectory::Entry& entry) {
    const v1::Job& job = *entry.job;
    if (!request.job().empty() && job.name() != request.job()) return true;
    if (!HasLabels(job, request) || !visible(job)) return true;
    int64_t index = entry.serial == from.first ? from.second : 0;
    for (; index < job.models_size(); ++index) {
      const v1::Artifact& model = job.models(static_cast<int>(index));
      if ((request.kept() && !IsKept(model)) ||
          !HasText(model, *entry.text, words)) {
        continue;
      }
      if (response.models_size() == size || bytes > kMaxPageBytes) {
        response.set_next_page_token(Token(list, {entry.serial, index}));
        return false;
      }
      *response.add_models() = ShowModel(job, static_cast<int>(index));
      bytes += response.models().rbegin()->ByteSizeLong();
    }
    return true;
  };
  directory.ForEachNewest(from.first, add);
  return response;
}

absl::StatusOr<v1::ListJobCheckpointsResponse> ListCheckpoints(
    const v1::Job& job, const v1::ListJobCheckpointsRequest& request) {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  const std::string list = "checkpoints\n" + job.name();
  Position after;
  if (!request.page_token().empty()) {
    ASSIGN_OR_RETURN(after, ParseToken(list, request.page_token()));
  }
  v1::ListJobCheckpointsResponse response;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    // Steps ascend, and old checkpoints go between two pages.
    if (after.second > 0 && checkpoint.step() <= after.first) continue;
    if (response.checkpoints_size() == size) {
      response.set_next_page_token(
          Token(list, {response.checkpoints(size - 1).step(), 1}));
      break;
    }
    *response.add_checkpoints() = checkpoint;
  }
  return response;
}

absl::Status AddConfig(const std::string& config, v1::Model* model) {
  const absl::Status bad = absl::DataLossError(
      absl::StrCat(model->name(), ": config.json is damaged"));
  const Json json = Json::parse(config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return bad;
  const auto of = [](const Json& object, const char* key) {
    const auto it = object.find(key);
    return it == object.end() ? Json() : *it;
  };
  const Json shape = of(json, "model");
  const Json layers = shape.is_object() ? of(shape, "factorisation") : Json();
  if (!layers.is_object() || layers.size() > kMaxLayers) return bad;
  for (const auto& [name, layer] : layers.items()) {
    const Json ranks = layer.is_object() ? of(layer, "ranks") : Json();
    if (!ranks.is_array() || ranks.size() > kMaxRanks ||
        name.size() > kMaxNameBytes) {
      return bad;
    }
    // A dense layer has none.
    if (ranks.empty()) continue;
    v1::LayerRanks* out = model->add_ranks();
    out->set_layer(name);
    for (const Json& rank : ranks) {
      if (!rank.is_number_integer() || rank < 0 ||
          rank > std::numeric_limits<int32_t>::max()) {
        return bad;
      }
      out->add_current(rank.get<int32_t>());
    }
  }
  const Json bytes = of(json, "size_bytes");
  if (bytes.is_number_integer() && bytes >= 0) {
    model->set_size_bytes(bytes.get<int64_t>());
  }
  const Json figures = of(json, "training");
  if (!figures.is_object()) return absl::OkStatus();
  for (const auto& [name, value] : figures.items()) {
    if (!value.is_number() || name.size() > kMaxNameBytes) continue;
    if (static_cast<int>(model->figures_size()) == kMaxFigures) break;
    (*model->mutable_figures())[name] = value.get<double>();
  }
  const Json step = of(figures, "step");
  if (step.is_number() && step >= 0 && step < 1e15) {
    model->set_step(static_cast<int64_t>(step.get<double>()));
  }
  return absl::OkStatus();
}

const v1::Artifact* FindModel(const JobDirectory& directory,
                              const std::string& name, const v1::Job** job) {
  const auto ids = ParseArtifactName(name);
  if (!ids) return nullptr;
  const JobDirectory::Entry* entry = directory.Find(JobName(ids->first));
  if (entry == nullptr) return nullptr;
  *job = entry->job.get();
  for (const v1::Artifact& model : entry->job->models()) {
    if (model.name() == name) return &model;
  }
  return nullptr;
}

}  // namespace comera::server
