// Chooses the optimiser of a job's method.
#include "worker/trainer/optimizer/make_optimizer.h"

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/optimizer/adamw.h"
#include "worker/trainer/optimizer/galore.h"
#include "worker/trainer/optimizer/lte_optimizer.h"
#include "worker/trainer/optimizer/muon.h"
#include "worker/trainer/optimizer/orthogonal_matrices.h"

namespace comera::trainer {
namespace {

AdamWOptions MakeAdamWOptions(const v1::JobSpec& spec) {
  const v1::OptimizerSpec& optimizer = spec.optimizer();
  AdamWOptions options;
  options.learning_rate_cores = optimizer.learning_rate_cores();
  options.learning_rate_ranks = optimizer.learning_rate_ranks();
  options.learning_rate_other = optimizer.learning_rate_other();
  options.learning_rate_tables = optimizer.has_learning_rate_tables()
                                     ? optimizer.learning_rate_tables()
                                     : optimizer.learning_rate_other();
  options.rowwise_adagrad =
      optimizer.tables() == v1::OptimizerSpec::ROWWISE_ADAGRAD;
  options.all_rows = optimizer.tables() == v1::OptimizerSpec::ADAMW_ON_ALL_ROWS;
  // The published code trains the head's cores and ranks like dense weights.
  options.group_head = spec.objective().kind() != v1::ObjectiveSpec::REFERENCE;
  options.weight_decay = optimizer.weight_decay();
  options.beta1 = optimizer.beta1();
  options.beta2 = optimizer.beta2();
  options.epsilon = optimizer.epsilon();
  options.clip_norm = optimizer.clip_norm();
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
    const v1::JobSpec& spec, const ModelConfig& config,
    const ParameterLayout& layout, kernels::Backend* backend) {
  const AdamWOptions options = MakeAdamWOptions(spec);
  const v1::CompressionSpec& compression = spec.compression();
  if (compression.method() == v1::CompressionSpec::GALORE) {
    GaloreOptions galore;
    galore.adamw = options;
    galore.refresh_every_steps = compression.galore().refresh_every_steps();
    galore.scale = compression.galore().scale();
    return Galore::Create(galore, layout, backend);
  }
  if (compression.method() == v1::CompressionSpec::LTE) {
    return LteOptimizer::Create(options, compression.lte().merge_every_steps(),
                                LteLayersOf(config), layout, backend);
  }
  if (spec.optimizer().kind() == v1::OptimizerSpec::MUON) {
    MuonOptions muon;
    muon.adamw = options;
    return Muon::Create(muon, OrthogonalMatrices(config, layout), layout,
                        backend);
  }
  return AdamW::Create(options, layout, backend);
}

}  // namespace comera::trainer
