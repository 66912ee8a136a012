// Slices batches out of golden files and counts sizes as the published code
// does.

#include "tests/golden/reference_batch.h"

#include "common/status_macros.h"
#include "tests/golden/golden_file.h"

namespace comera::golden {

absl::StatusOr<trainer::Batch> ReferenceBatch(const Safetensors& file,
                                              int64_t index, int64_t count) {
  ASSIGN_OR_RETURN(const auto shape, file.GetShape("ids"));
  ASSIGN_OR_RETURN(const auto ids, GetInt32(file, "ids"));
  ASSIGN_OR_RETURN(const auto mask, GetInt32(file, "mask"));
  ASSIGN_OR_RETURN(const auto segments, GetInt32(file, "segments"));
  ASSIGN_OR_RETURN(const auto labels, GetInt32(file, "labels"));
  trainer::Batch batch;
  batch.length = shape.back();
  const int64_t tokens = static_cast<int64_t>(ids.size()) / count;
  if (batch.length < 1 || tokens < 1) return absl::DataLossError("ids: empty");
  batch.size = tokens / batch.length;
  if (mask.size() != ids.size() || segments.size() != ids.size() ||
      static_cast<int64_t>(labels.size()) != count * batch.size) {
    return absl::DataLossError("ids, mask, segments, labels do not fit");
  }
  const int64_t first = index * tokens;
  batch.ids.assign(ids.begin() + first, ids.begin() + first + tokens);
  batch.segments.assign(segments.begin() + first,
                        segments.begin() + first + tokens);
  batch.mask.assign(mask.begin() + first, mask.begin() + first + tokens);
  for (int64_t b = 0; b < batch.size; ++b) {
    batch.label_rows.push_back(static_cast<int32_t>(b * batch.length));
    batch.labels.push_back(labels[index * batch.size + b]);
  }
  return batch;
}

std::vector<trainer::TensorisedLayer> ReferenceSizeLayers(
    const trainer::ParameterLayout& layout,
    std::vector<trainer::TensorisedLayer> layers) {
  for (trainer::TensorisedLayer& layer : layers) {
    for (size_t i = 0; i < layer.cores.size(); ++i) {
      layer.modes[i] = layout[layer.cores[i]].shape[1];
    }
  }
  return layers;
}

}  // namespace comera::golden
