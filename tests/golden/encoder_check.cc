// Compares one step of our encoder with the published code's loss, logits and
// gradients.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/golden/device_memory.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/model_checks.h"
#include "tests/golden/reference_batch.h"
#include "tests/golden/reference_model.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/interface/model.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera::golden {
namespace {

constexpr double kTolerance = 1e-4;
// The gradient of a key bias is exactly 0 (softmax is invariant to a constant),
// so both sides hold rounding noise there, and it is measured against this
// share of the largest gradient. All others are measured against themselves:
// the gradients of queries and keys are small, but no less important.
constexpr double kNoiseFloor = 1e-4;

std::vector<float> Slice(const std::vector<float>& values,
                         const trainer::Parameter& p) {
  return {values.begin() + p.offset, values.begin() + p.offset + p.size};
}

}  // namespace

absl::Status CheckEncoderClassifier(const Safetensors& file,
                                    kernels::Backend* backend, Report* report) {
  ASSIGN_OR_RETURN(const trainer::ModelConfig config,
                   ReferenceConfig(file, "param."));
  ASSIGN_OR_RETURN(const trainer::Batch batch, ReferenceBatch(file, 0, 1));
  ASSIGN_OR_RETURN(const auto model,
                   trainer::CreateModel(config, batch.size, backend));
  const trainer::ParameterLayout& layout = model->layout();
  ASSIGN_OR_RETURN(const std::vector<float> parameters,
                   ReferenceValues(file, "param.", layout));
  ASSIGN_OR_RETURN(const std::vector<float> reference,
                   ReferenceValues(file, "grad.", layout));
  DeviceMemory memory(backend);
  ASSIGN_OR_RETURN(float* const weights, memory.Floats(parameters));
  ASSIGN_OR_RETURN(float* const weight_gradients, memory.Zeros(layout.size()));
  ASSIGN_OR_RETURN(const kernels::StepState* const state, memory.State());
  const auto forward = [&] {
    return model->Forward(batch, weights, true, state);
  };
  RETURN_IF_ERROR(forward());
  ASSIGN_OR_RETURN(const std::vector<float> logits, model->ReadLogits());
  // Logits share memory with what Backward needs.
  RETURN_IF_ERROR(forward());
  ASSIGN_OR_RETURN(const trainer::LossTotals totals, model->ReadLoss());
  RETURN_IF_ERROR(model->Backward(weights, weight_gradients));
  ASSIGN_OR_RETURN(std::vector<float> gradients,
                   memory.Read(weight_gradients, layout.size()));

  ASSIGN_OR_RETURN(const auto reference_logits, file.GetFloat("logits"));
  ASSIGN_OR_RETURN(const auto reference_loss, file.GetFloat("loss"));
  report->CompareTensor("logits", logits, reference_logits, kTolerance);
  report->CompareTensor("loss",
                        {static_cast<float>(totals.loss_sum / totals.labels)},
                        reference_loss, kTolerance);
  // The published code's gradient is that of the mean.
  double largest = 0;
  for (float& g : gradients) g = static_cast<float>(g / totals.labels);
  for (float g : reference) largest = std::max(largest, std::fabs(double{g}));
  for (const trainer::Parameter& p : layout.parameters()) {
    report->CompareTensor(absl::StrCat("grad.", p.name), Slice(gradients, p),
                          Slice(reference, p), kTolerance,
                          absl::EndsWith(p.name, ".attention.key.bias")
                              ? kNoiseFloor * largest
                              : 0);
  }
  if (file.metadata().count("size") == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double size, MetadataNumber(file, "size"));
  int64_t counted = 0;
  for (const trainer::TensorisedLayer& layer :
       ReferenceSizeLayers(layout, model->tensorised_layers())) {
    counted += TensorisedSize(
        layer,
        AliveRanks(layout, layer, parameters.data(), config.rank_threshold));
  }
  report->Check("size", static_cast<double>(counted) == size,
                absl::StrCat(counted, ", reference ", size));
  return absl::OkStatus();
}

}  // namespace comera::golden
