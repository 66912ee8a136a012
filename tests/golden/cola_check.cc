// Compares CoLA's layer with the published one, alone and three of them as an
// MLP.

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/method_checks.h"
#include "tests/worker/trainer/model/layer_harness.h"

namespace comera::golden {
namespace {

using trainer::LayerHarness;
using Values = std::vector<float>;

constexpr double kTolerance = 1e-5;

// A layer with the factors `prefix`a and `prefix`b of the file, and the bias if
// there is one.
class ColaLayer {
 public:
  absl::Status Create(const Safetensors& file, const std::string& prefix,
                      int64_t rows, const BackendFactory& make_backend) {
    ASSIGN_OR_RETURN(const Values a, file.GetFloat(prefix + "a"));
    ASSIGN_OR_RETURN(const Values b, file.GetFloat(prefix + "b"));
    ASSIGN_OR_RETURN(const auto a_shape, file.GetShape(prefix + "a"));
    ASSIGN_OR_RETURN(const auto b_shape, file.GetShape(prefix + "b"));
    rows_ = rows;
    inputs_ = a_shape.at(0);
    outputs_ = b_shape.at(1);
    trainer::Factorisation f;
    f.low_rank = {trainer::LowRank::Kind::kCola, a_shape.at(1), 1, 1};
    ASSIGN_OR_RETURN(auto backend, make_backend());
    layer_ = LayerHarness::ForLinear(inputs_, outputs_, f, 0.01f, rows,
                                     std::move(backend));
    std::copy(a.begin(), a.end(), layer_->Parameter("a"));
    std::copy(b.begin(), b.end(), layer_->Parameter("b"));
    if (file.tensors().count(prefix + "bias") > 0) {
      ASSIGN_OR_RETURN(const Values bias, file.GetFloat(prefix + "bias"));
      std::copy(bias.begin(), bias.end(), layer_->Parameter("bias"));
    }
    memory_ = std::make_unique<DeviceMemory>(&layer_->backend());
    step_ = layer_->step();
    ASSIGN_OR_RETURN(step_.parameters, memory_->Floats(layer_->parameters()));
    ASSIGN_OR_RETURN(step_.gradients, memory_->Floats(layer_->gradients()));
    return absl::OkStatus();
  }

  absl::StatusOr<Values> Forward(const Values& x) {
    ASSIGN_OR_RETURN(x_, memory_->Floats(x));
    ASSIGN_OR_RETURN(float* const y, memory_->Zeros(rows_ * outputs_));
    RETURN_IF_ERROR(layer_->linear().Contract(step_));
    RETURN_IF_ERROR(layer_->linear().Forward(step_, 0, {x_, rows_, inputs_},
                                             {y, rows_, outputs_}));
    return memory_->Read(y, rows_ * outputs_);
  }

  // Returns the gradient of x.
  absl::StatusOr<Values> Backward(const Values& dy) {
    ASSIGN_OR_RETURN(float* const grad_y, memory_->Floats(dy));
    ASSIGN_OR_RETURN(float* const grad_x, memory_->Zeros(rows_ * inputs_));
    RETURN_IF_ERROR(layer_->linear().Backward(
        step_, 0, {x_, rows_, inputs_}, {grad_y, rows_, outputs_},
        {grad_x, rows_, inputs_}, /*accumulate=*/false));
    RETURN_IF_ERROR(layer_->linear().FinishBackward(step_));
    ASSIGN_OR_RETURN(layer_->gradients(),
                     memory_->Read(step_.gradients,
                                   layer_->layout().parameters.trained_size()));
    return memory_->Read(grad_x, rows_ * inputs_);
  }

  Values Gradient(const std::string& name) {
    const float* at = layer_->Gradient(name);
    return Values(at, at + layer_->Size(name));
  }

 private:
  int64_t rows_ = 0, inputs_ = 0, outputs_ = 0;
  std::unique_ptr<LayerHarness> layer_;
  std::unique_ptr<DeviceMemory> memory_;
  trainer::Step step_;
  float* x_ = nullptr;
};

absl::Status CheckLayer(const Safetensors& file, const std::string& name,
                        const BackendFactory& make_backend, Report* report) {
  const std::string prefix = name + ".";
  ASSIGN_OR_RETURN(const Values x, file.GetFloat(prefix + "x"));
  ASSIGN_OR_RETURN(const Values dy, file.GetFloat(prefix + "dy"));
  ASSIGN_OR_RETURN(const auto shape, file.GetShape(prefix + "x"));
  ColaLayer layer;
  RETURN_IF_ERROR(layer.Create(file, prefix, shape.at(0), make_backend));
  ASSIGN_OR_RETURN(const Values y, layer.Forward(x));
  ASSIGN_OR_RETURN(const Values grad_x, layer.Backward(dy));
  std::vector<std::pair<std::string, Values>> all = {
      {"y", y},
      {"grad_x", grad_x},
      {"grad_a", layer.Gradient("a")},
      {"grad_b", layer.Gradient("b")}};
  if (file.tensors().count(prefix + "grad_bias") > 0) {
    all.emplace_back("grad_bias", layer.Gradient("bias"));
  }
  for (const auto& [what, ours] : all) {
    ASSIGN_OR_RETURN(const Values published, file.GetFloat(prefix + what));
    report->CompareTensor(prefix + what, ours, published, kTolerance);
  }
  return absl::OkStatus();
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// down(f(gate(x)) * up(x)) with f the SiLU or nothing; the products are formed
// here, the engine has no such MLP.
absl::Status CheckMlp(const Safetensors& file, bool activates,
                      const BackendFactory& make_backend, Report* report) {
  const std::string prefix = activates ? "mlp.both." : "mlp.only.";
  ASSIGN_OR_RETURN(const Values x, file.GetFloat("mlp.x"));
  ASSIGN_OR_RETURN(const Values dy, file.GetFloat("mlp.dy"));
  ASSIGN_OR_RETURN(const auto shape, file.GetShape("mlp.x"));
  ColaLayer gate, up, down;
  for (auto [layer, name] : {std::pair{&gate, "mlp.gate."},
                             std::pair{&up, "mlp.up."},
                             std::pair{&down, "mlp.down."}}) {
    RETURN_IF_ERROR(layer->Create(file, name, shape.at(0), make_backend));
  }
  ASSIGN_OR_RETURN(const Values gated, gate.Forward(x));
  ASSIGN_OR_RETURN(const Values upped, up.Forward(x));
  Values product(gated.size());
  for (size_t i = 0; i < product.size(); ++i) {
    const double g = gated[i];
    product[i] = static_cast<float>((activates ? g * Sigmoid(g) : g) *
                                    static_cast<double>(upped[i]));
  }
  ASSIGN_OR_RETURN(const Values y, down.Forward(product));
  ASSIGN_OR_RETURN(const Values grad, down.Backward(dy));
  Values grad_gate(grad.size()), grad_up(grad.size());
  for (size_t i = 0; i < grad.size(); ++i) {
    const double g = gated[i], s = Sigmoid(g);
    const double value = activates ? g * s : g;
    const double slope = activates ? s * (1 + g * (1 - s)) : 1;
    grad_gate[i] = static_cast<float>(grad[i] * slope * upped[i]);
    grad_up[i] = static_cast<float>(grad[i] * value);
  }
  ASSIGN_OR_RETURN(Values grad_x, gate.Backward(grad_gate));
  ASSIGN_OR_RETURN(const Values other, up.Backward(grad_up));
  for (size_t i = 0; i < grad_x.size(); ++i) grad_x[i] += other[i];
  const std::vector<std::pair<std::string, Values>> all = {
      {"y", y},
      {"grad_x", grad_x},
      {"grad_gate_a", gate.Gradient("a")},
      {"grad_gate_b", gate.Gradient("b")},
      {"grad_up_a", up.Gradient("a")},
      {"grad_up_b", up.Gradient("b")},
      {"grad_down_a", down.Gradient("a")},
      {"grad_down_b", down.Gradient("b")}};
  for (const auto& [what, ours] : all) {
    ASSIGN_OR_RETURN(const Values published, file.GetFloat(prefix + what));
    report->CompareTensor(prefix + what, ours, published, kTolerance);
  }
  return absl::OkStatus();
}

}  // namespace

// A product without the SiLU (layer "lin") is not offered.
absl::Status CheckCola(const Safetensors& file,
                       const BackendFactory& make_backend, Report* report) {
  for (const char* name : {"q", "up"}) {
    RETURN_IF_ERROR(CheckLayer(file, name, make_backend, report));
  }
  RETURN_IF_ERROR(CheckMlp(file, false, make_backend, report));
  return CheckMlp(file, true, make_backend, report);
}

}  // namespace comera::golden
