// Applies saved ranks, and computes fingerprints of specifications.
#include "worker/trainer/state/training_state.h"

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/data_paths.h"
#include "proto/data_url.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

RankTable RanksOf(const ModelConfig& config) {
  RankTable ranks;
  for (const auto& [layer, factorisation] : config.layers_by_name) {
    if (!factorisation.dense()) ranks[layer] = factorisation.ranks;
  }
  return ranks;
}

absl::StatusOr<ModelConfig> WithRanks(ModelConfig config,
                                      const RankTable& ranks) {
  size_t used = 0;
  bool earlier_modes = false;
  for (auto& [layer, factorisation] : config.layers_by_name) {
    if (factorisation.dense()) continue;
    const auto it = ranks.find(layer);
    if (it == ranks.end()) {
      return absl::DataLossError(absl::StrCat("ranks of layer ", layer));
    }
    if (it->second.size() != factorisation.ranks.size()) {
      // A job goes on with the modes that it began with.
      std::optional<Factorisation> earlier =
          WithEarlierModes(config, layer, it->second);
      if (!earlier) {
        return absl::DataLossError(absl::StrCat("ranks of layer ", layer));
      }
      factorisation = *std::move(earlier);
      earlier_modes = true;
      ++used;
      continue;
    }
    for (size_t i = 0; i < it->second.size(); ++i) {
      if (it->second[i] < 0 || it->second[i] > factorisation.ranks[i]) {
        return absl::DataLossError(absl::StrCat("ranks of layer ", layer, ": ",
                                                it->second[i], " at bond ", i));
      }
    }
    factorisation.ranks = it->second;
    ++used;
  }
  if (used != ranks.size()) {
    return absl::DataLossError("ranks of layers that the model does not have");
  }
  if (earlier_modes) {
    const absl::Status valid = CheckModelConfig(config);
    if (!valid.ok()) return absl::DataLossError(valid.message());
  }
  return config;
}

namespace {

// Where files of datasets come from.
enum class DatasetPaths { kWithoutCache, kLocal };

v1::JobSpec WhatNumbersDependOn(
    const v1::JobSpec& spec,
    DatasetPaths dataset_paths = DatasetPaths::kWithoutCache) {
  v1::JobSpec kept;
  *kept.mutable_model() = spec.model();
  *kept.mutable_data() = spec.data();
  *kept.mutable_compression() = spec.compression();
  *kept.mutable_objective() = spec.objective();
  *kept.mutable_optimizer() = spec.optimizer();
  *kept.mutable_training() = spec.training();
  if (spec.has_initial_weights()) {
    *kept.mutable_initial_weights() = spec.initial_weights();
  }
  // Files from URLs are told by the digest of the data (data_digest.h), because
  // their local paths differ between machines.
  for (const DataPath& path : DataPaths(&kept)) {
    if (!FetchedUrlDigest(*path.path).empty()) {
      path.path->erase(0, path.path->rfind('/') + 1);
    } else if (dataset_paths == DatasetPaths::kWithoutCache) {
      *path.path = std::string(WithoutCache(*path.path));
    }
  }
  // How often progress is shown changes no number.
  kept.mutable_training()->clear_report_every_steps();
  // What was the only mode once is the same by its name, and so is the field
  // that text was read from before others could be.
  if (spec.data().text().field() == "text") {
    kept.mutable_data()->mutable_text()->clear_field();
  }
  if (spec.objective().late().mode() == v1::LateStage::CONSTRAINT) {
    kept.mutable_objective()->mutable_late()->clear_mode();
  }
  // What to do about divergence changes none before there is any.
  kept.mutable_training()->clear_on_divergence();
  // Like the size of the gang, the number of parts changes rounding only.
  kept.mutable_training()->clear_accumulate();
  if (spec.compression().cola().nonlinearity() ==
      v1::ColaSpec::BETWEEN_FACTORS) {
    kept.mutable_compression()->mutable_cola()->clear_nonlinearity();
  }
  if (spec.compression().inner_activation() == v1::CompressionSpec::IDENTITY) {
    kept.mutable_compression()->clear_inner_activation();
  }
  if (spec.compression().embedding().dense_tokens() == 0 &&
      spec.compression().embedding().has_dense_tokens()) {
    kept.mutable_compression()->mutable_embedding()->clear_dense_tokens();
  }
  return kept;
}

std::string Digest(const v1::JobSpec& kept) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    kept.SerializeToCodedStream(&coded);
  }
  return Sha256Hex(bytes);
}

}  // namespace

std::string SpecFingerprint(const v1::JobSpec& spec) {
  return Digest(WhatNumbersDependOn(spec));
}

std::string FormerSpecFingerprint(const v1::JobSpec& spec) {
  return Digest(WhatNumbersDependOn(spec, DatasetPaths::kLocal));
}

std::string EarlyStageFingerprint(const v1::JobSpec& spec) {
  v1::JobSpec kept = WhatNumbersDependOn(spec);
  // Each machine may keep the same data in a folder of its own.
  for (const DataPath& path : DataPaths(&kept)) {
    path.path->erase(0, path.path->rfind('/') + 1);
  }
  v1::ObjectiveSpec& objective = *kept.mutable_objective();
  objective.mutable_early()->clear_only();
  objective.clear_late();
  // The learning rate decays towards the end of the late stage.
  if (spec.optimizer().decay() != v1::OptimizerSpec::NONE) {
    objective.mutable_late()->set_max_steps(
        spec.objective().late().max_steps());
  }
  return Digest(kept);
}

}  // namespace comera::trainer
