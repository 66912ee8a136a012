// Compares our TT-linear and TTM-embedding layers with golden files.

#include "tests/golden/layer_checks.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/golden/device_memory.h"
#include "tests/golden/golden_file.h"
#include "tests/worker/trainer/model/layer_harness.h"
#include "worker/trainer/model/plan/unique_ids.h"

namespace comera::golden {
namespace {

using trainer::Factorisation;
using trainer::LayerHarness;

constexpr double kTolerance = 1e-5;

int64_t Product(const std::vector<int64_t>& values) {
  int64_t product = 1;
  for (int64_t value : values) product *= value;
  return product;
}

// The ranks in the metadata include the outer ones.
absl::StatusOr<std::vector<int64_t>> InnerRanks(const Safetensors& file,
                                                size_t order) {
  ASSIGN_OR_RETURN(std::vector<int64_t> ranks, MetadataIntegers(file, "ranks"));
  if (order < 2 || ranks.size() != order + 1) {
    return absl::DataLossError("metadata ranks: wrong number");
  }
  return std::vector<int64_t>(ranks.begin() + 1, ranks.end() - 1);
}

absl::Status SetParameter(const Safetensors& file, const std::string& name,
                          LayerHarness* layer) {
  ASSIGN_OR_RETURN(const std::vector<float> values, file.GetFloat(name));
  if (static_cast<int64_t>(values.size()) != layer->Size(name)) {
    return absl::DataLossError(absl::StrCat(name, ": wrong size"));
  }
  std::copy(values.begin(), values.end(), layer->Parameter(name));
  return absl::OkStatus();
}

absl::Status SetCores(const Safetensors& file, size_t order,
                      LayerHarness* layer) {
  for (size_t i = 0; i < order; ++i) {
    RETURN_IF_ERROR(SetParameter(file, absl::StrCat("core.", i), layer));
    if (i + 1 == order) break;
    RETURN_IF_ERROR(SetParameter(file, absl::StrCat("rank.", i), layer));
  }
  return absl::OkStatus();
}

absl::Status CompareGradient(const Safetensors& file, const std::string& name,
                             LayerHarness* layer, Report* report) {
  const std::string golden = absl::StrCat("grad_", name);
  ASSIGN_OR_RETURN(const std::vector<float> reference, file.GetFloat(golden));
  const float* actual = layer->Gradient(name);
  report->CompareTensor(golden,
                        std::vector<float>(actual, actual + layer->Size(name)),
                        reference, kTolerance);
  return absl::OkStatus();
}

absl::Status CompareCoreGradients(const Safetensors& file, size_t order,
                                  LayerHarness* layer, Report* report) {
  for (size_t i = 0; i < order; ++i) {
    RETURN_IF_ERROR(
        CompareGradient(file, absl::StrCat("core.", i), layer, report));
    if (i + 1 == order) break;
    RETURN_IF_ERROR(
        CompareGradient(file, absl::StrCat("rank.", i), layer, report));
  }
  return absl::OkStatus();
}

// Makes a step on parameters and gradients in memory of the layer's backend.
absl::StatusOr<trainer::Step> DeviceStep(LayerHarness* layer,
                                         DeviceMemory* memory) {
  trainer::Step step = layer->step();
  ASSIGN_OR_RETURN(step.parameters, memory->Floats(layer->parameters()));
  ASSIGN_OR_RETURN(step.gradients, memory->Floats(layer->gradients()));
  return step;
}

absl::Status ReadGradients(const trainer::Step& step, LayerHarness* layer,
                           DeviceMemory* memory) {
  std::vector<float>& gradients = layer->gradients();
  ASSIGN_OR_RETURN(
      gradients,
      memory->Read(step.gradients, static_cast<int64_t>(gradients.size())));
  return absl::OkStatus();
}

// The modes are listed in one row; the inputs are those whose product is the
// width of x, half of them if that fits.
absl::StatusOr<Factorisation> SplitModes(const std::vector<int64_t>& modes,
                                         int64_t inputs, int64_t outputs) {
  std::vector<size_t> counts = {modes.size() / 2};
  for (size_t count = 1; count < modes.size(); ++count) counts.push_back(count);
  for (size_t count : counts) {
    Factorisation f;
    f.input_modes.assign(modes.begin(), modes.begin() + count);
    f.output_modes.assign(modes.begin() + count, modes.end());
    if (Product(f.input_modes) == inputs &&
        Product(f.output_modes) == outputs) {
      return f;
    }
  }
  return absl::DataLossError("metadata shape: does not fit x and y");
}

}  // namespace

absl::Status CheckTtLinear(const Safetensors& file,
                           std::unique_ptr<kernels::Backend> backend,
                           Report* report) {
  ASSIGN_OR_RETURN(const auto modes, MetadataIntegers(file, "shape"));
  ASSIGN_OR_RETURN(const double threshold, MetadataNumber(file, "threshold"));
  ASSIGN_OR_RETURN(const auto x_shape, file.GetShape("x"));
  ASSIGN_OR_RETURN(const auto y_shape, file.GetShape("y"));
  if (x_shape.empty() || y_shape.empty()) {
    return absl::DataLossError("x or y is a scalar");
  }
  const int64_t inputs = x_shape.back(), outputs = y_shape.back();
  ASSIGN_OR_RETURN(Factorisation f, SplitModes(modes, inputs, outputs));
  ASSIGN_OR_RETURN(f.ranks, InnerRanks(file, modes.size()));
  ASSIGN_OR_RETURN(const auto x, file.GetFloat("x"));
  ASSIGN_OR_RETURN(const auto y, file.GetFloat("y"));
  ASSIGN_OR_RETURN(const auto grad_y, file.GetFloat("grad_y"));
  ASSIGN_OR_RETURN(const auto grad_x, file.GetFloat("grad_x"));
  const int64_t rows = static_cast<int64_t>(x.size()) / inputs;
  if (static_cast<int64_t>(y.size()) != rows * outputs ||
      grad_y.size() != y.size()) {
    return absl::DataLossError("x, y and grad_y do not fit");
  }

  const auto layer =
      LayerHarness::ForLinear(inputs, outputs, f, static_cast<float>(threshold),
                              rows, std::move(backend));
  RETURN_IF_ERROR(SetCores(file, modes.size(), layer.get()));
  RETURN_IF_ERROR(SetParameter(file, "bias", layer.get()));

  DeviceMemory memory(&layer->backend());
  ASSIGN_OR_RETURN(const trainer::Step step, DeviceStep(layer.get(), &memory));
  ASSIGN_OR_RETURN(float* const xs, memory.Floats(x));
  ASSIGN_OR_RETURN(float* const grad_ys, memory.Floats(grad_y));
  ASSIGN_OR_RETURN(float* const ys, memory.Zeros(rows * outputs));
  ASSIGN_OR_RETURN(float* const grad_xs, memory.Zeros(rows * inputs));
  RETURN_IF_ERROR(layer->linear().Contract(step));
  RETURN_IF_ERROR(layer->linear().Forward(step, 0, {xs, rows, inputs},
                                          {ys, rows, outputs}));
  RETURN_IF_ERROR(layer->linear().Backward(
      step, 0, {xs, rows, inputs}, {grad_ys, rows, outputs},
      {grad_xs, rows, inputs}, /*accumulate=*/false));
  RETURN_IF_ERROR(layer->linear().FinishBackward(step));
  RETURN_IF_ERROR(ReadGradients(step, layer.get(), &memory));
  ASSIGN_OR_RETURN(const std::vector<float> our_y,
                   memory.Read(ys, rows * outputs));
  ASSIGN_OR_RETURN(const std::vector<float> our_grad_x,
                   memory.Read(grad_xs, rows * inputs));

  report->CompareTensor("y", our_y, y, kTolerance);
  report->CompareTensor("grad_x", our_grad_x, grad_x, kTolerance);
  RETURN_IF_ERROR(CompareGradient(file, "bias", layer.get(), report));
  return CompareCoreGradients(file, modes.size(), layer.get(), report);
}

absl::Status CheckTtmEmbedding(const Safetensors& file,
                               std::unique_ptr<kernels::Backend> backend,
                               Report* report) {
  Factorisation f;
  ASSIGN_OR_RETURN(f.input_modes, MetadataIntegers(file, "row_shape"));
  ASSIGN_OR_RETURN(f.output_modes, MetadataIntegers(file, "col_shape"));
  const size_t order = f.input_modes.size();
  ASSIGN_OR_RETURN(f.ranks, InnerRanks(file, order));
  ASSIGN_OR_RETURN(const double threshold, MetadataNumber(file, "threshold"));
  ASSIGN_OR_RETURN(const auto ids, GetInt32(file, "ids"));
  ASSIGN_OR_RETURN(const auto y, file.GetFloat("y"));
  ASSIGN_OR_RETURN(const auto grad_y, file.GetFloat("grad_y"));
  const int64_t vocabulary = Product(f.input_modes);
  const int64_t width = Product(f.output_modes);
  const int64_t rows = static_cast<int64_t>(ids.size());
  if (f.output_modes.size() != order ||
      static_cast<int64_t>(y.size()) != rows * width ||
      grad_y.size() != y.size()) {
    return absl::DataLossError("ids, y, grad_y and the modes do not fit");
  }
  const auto layer = LayerHarness::ForEmbedding(vocabulary, width, f,
                                                static_cast<float>(threshold),
                                                rows, std::move(backend));
  RETURN_IF_ERROR(SetCores(file, order, layer.get()));

  // Looks every distinct id up once, then gathers a row per token, as the model
  // does.
  trainer::UniqueIds unique("id", rows, vocabulary);
  RETURN_IF_ERROR(unique.Set(ids));
  const absl::Span<const int32_t> index = unique.index();
  const int64_t distinct = unique.count();
  kernels::Backend& device = layer->backend();
  DeviceMemory memory(&device);
  ASSIGN_OR_RETURN(const trainer::Step step, DeviceStep(layer.get(), &memory));
  ASSIGN_OR_RETURN(
      const int32_t* const token_rows,
      memory.Integers(std::vector<int32_t>(index.begin(), index.end())));
  ASSIGN_OR_RETURN(float* const table, memory.Zeros(distinct * width));
  ASSIGN_OR_RETURN(float* const grad_table, memory.Zeros(distinct * width));
  ASSIGN_OR_RETURN(float* const ys, memory.Zeros(rows * width));
  ASSIGN_OR_RETURN(float* const grad_ys, memory.Floats(grad_y));
  RETURN_IF_ERROR(layer->embedding().SetIds(unique.unique()));
  RETURN_IF_ERROR(layer->embedding().Forward(step, {table, distinct, width}));
  RETURN_IF_ERROR(device.GatherRows({table, distinct, width},
                                    {token_rows, rows}, {ys, rows, width}));
  RETURN_IF_ERROR(device.ScatterAddRows({grad_ys, rows, width},
                                        {token_rows, rows},
                                        {grad_table, distinct, width}));
  RETURN_IF_ERROR(
      layer->embedding().Backward(step, {grad_table, distinct, width}));
  RETURN_IF_ERROR(ReadGradients(step, layer.get(), &memory));
  ASSIGN_OR_RETURN(const std::vector<float> our_y,
                   memory.Read(ys, rows * width));
  report->CompareTensor("y", our_y, y, kTolerance);
  return CompareCoreGradients(file, order, layer.get(), report);
}

}  // namespace comera::golden
