#ifndef COMERA_WORKER_TRAINER_GENERATE_MODEL_PARTS_H_
#define COMERA_WORKER_TRAINER_GENERATE_MODEL_PARTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/trainer/generate/folded_linear.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/weights/layer_factors.h"

namespace comera::trainer {

// The layers and parameters of a model on a backend, by the names that the
// configuration gives them.
//
// What is a parameter as it is, is used where it lies; all else is computed on
// the host. Only needed while a model is folded. Not thread-safe.
class ModelParts {
 public:
  // `parameters`: memory of the backend, in the layout of
  // MakeModelLayout(config), every rank entry 1. It outlives what is made here,
  // as do `config` and the backend.
  static absl::StatusOr<ModelParts> Create(const ModelConfig& config,
                                           const float* parameters,
                                           kernels::Backend* backend);

  const ModelConfig& config() const { return config_; }
  kernels::Backend* backend() const { return backend_; }

  // A layer by its key in ModelConfig::layers_by_name.
  bool IsPruned(const std::string& key) const;
  // Two factors only where RankOf is not 0, or the layer is pruned.
  LayerFactors Factors(const std::string& key) const;
  absl::StatusOr<FoldedLinear> Linear(const std::string& key) const;
  // The rank between the two factors of a layer, or 0 where it has one, or is
  // pruned, or the product of the two is smaller.
  int64_t RankOf(const std::string& key) const;

  // A parameter in the backend's memory; null data: the model has none.
  kernels::ConstVector Vector(const std::string& name) const;
  // The bias of a layer; null data: the layer has none.
  kernels::ConstVector BiasOf(const std::string& key) const;
  // The same in host memory; empty: the layer has none.
  std::vector<float> HostBiasOf(const std::string& key) const;

 private:
  ModelParts(const ModelConfig& config, const float* parameters,
             kernels::Backend* backend);
  const FactorisableLayer& Layer(const std::string& key) const;

  const ModelConfig& config_;
  kernels::Backend* const backend_;
  const float* const on_backend_;
  const ModelLayout layout_;
  const std::vector<FactorisableLayer> layers_;
  // The parameters, where the backend is not in host memory.
  std::vector<float> copy_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_MODEL_PARTS_H_
