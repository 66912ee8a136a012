// Predicts the work and the memory of a task, layer by layer.
#include "worker/trainer/describe/describe.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/contraction/cost_model.h"
#include "kernels/contraction/ttm_plan.h"
#include "worker/trainer/describe/described_clicks.h"
#include "worker/trainer/describe/described_vocabulary.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/interface/model.h"
#include "worker/trainer/model/plan/layer_path.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/planning/calibration.h"
#include "worker/trainer/planning/phase_table.h"
#include "worker/trainer/process/make_backend.h"
#include "worker/trainer/process/process_memory.h"

namespace comera::trainer {
namespace {

constexpr int64_t kFloat = sizeof(float);
// There are parameters, gradients and two moments.
constexpr int64_t kCopies = 4;

// The rows that the layer sees of `batch`.
int64_t RowsOf(const FactorisableLayer& layer, const Batch& batch) {
  const int64_t tokens = batch.size * batch.length;
  if (layer.embedding) return std::min(tokens, layer.inputs);
  if (!layer.in_head) return tokens;
  return static_cast<int64_t>(batch.labels.size());
}

int64_t CountParameters(const FactorisableLayer& layer,
                        const Factorisation& f) {
  ModelLayout layout;
  AddLayer(layer, f, &layout);
  return layout.parameters.size();
}

void DescribeLinear(const ModelConfig& config, const FactorisableLayer& layer,
                    const Factorisation& f, LayerDescription* to) {
  to->dense_multiply_adds =
      kernels::DenseCost(layer.inputs, layer.outputs, to->rows).total();
  to->dense_seconds = kernels::DenseSeconds(layer.inputs, layer.outputs,
                                            to->rows, config.machine)
                          .total();
  if (f.dense()) {
    to->path = f.low_rank.kind == LowRank::Kind::kNone ? "dense weight"
                                                       : "low-rank method";
    to->multiply_adds = to->dense_multiply_adds;
    to->seconds = to->dense_seconds;
  } else if (IsPruned(f)) {
    to->path = "gone";
  } else {
    const kernels::TtChoice choice =
        ChooseLayerPath(config, layer, f, to->rows);
    to->path = kernels::TtPathName(choice.path);
    to->groups = kernels::GroupsText(choice.ends);
    to->multiply_adds = choice.cost.total();
    to->seconds =
        kernels::SecondsOf(choice.ends, ShapeOf(f), to->rows, config.machine)
            .total();
  }
}

// Describes an embedding. Looking up a dense row moves it, there and back.
void DescribeEmbedding(const ModelConfig& config,
                       const FactorisableLayer& layer, const Factorisation& f,
                       LayerDescription* to) {
  const double rows = static_cast<double>(to->rows);
  const double row_bytes = 4.0 * static_cast<double>(layer.outputs);
  to->dense_seconds =
      kernels::MoveSeconds(config.machine, 5 * rows * row_bytes);
  if (f.dense()) {
    to->path = "dense table";
    to->seconds = to->dense_seconds;
    return;
  }
  // Every step reads all dense rows, and adds to all of their gradients.
  const auto dense = static_cast<int64_t>(f.dense_tokens.size());
  if (dense > 0) {
    to->seconds = kernels::MoveSeconds(
        config.machine, 5 * static_cast<double>(dense) * row_bytes);
  }
  if (f.ranks[0] == 0) {
    to->path = dense > 0 ? "dense rows" : "gone";
    return;
  }
  // Its shape was checked with the configuration.
  const auto plan =
      kernels::TtmPlan::Create({f.input_modes, f.output_modes, f.ranks},
                               std::min(to->rows, layer.inputs - dense));
  to->path = "shared products";
  to->multiply_adds = 3 * plan->cost();
  to->seconds += to->multiply_adds / config.machine.skinny_rate;
}

LayerDescription DescribeLayer(const ModelConfig& config,
                               const FactorisableLayer& layer,
                               const Batch& batch, int64_t parts) {
  const Factorisation& f = config.layers_by_name.at(layer.key);
  LayerDescription to;
  to.name = layer.key;
  to.layer_class = layer.layer_class;
  to.rows = RowsOf(layer, batch);
  to.parameters = CountParameters(layer, f);
  to.bytes = kCopies * to.parameters * kFloat;
  to.dense_parameters = CountParameters(layer, {});
  if (layer.embedding) {
    DescribeEmbedding(config, layer, f, &to);
  } else {
    DescribeLinear(config, layer, f, &to);
  }
  for (double* const work : {&to.multiply_adds, &to.seconds,
                             &to.dense_multiply_adds, &to.dense_seconds}) {
    *work *= static_cast<double>(parts);
  }
  return to;
}

MemoryDescription DescribeMemory(const StepPrediction& step, int threads,
                                 int64_t process_bytes) {
  MemoryDescription memory;
  memory.parameters = step.parameter_bytes;
  memory.gradients = step.gradient_bytes;
  memory.moments = step.optimizer_bytes;
  memory.activations = step.activation_bytes;
  memory.scratch = LibraryBytes(threads);
  memory.process = process_bytes;
  memory.checkpoint =
      CheckpointBytes(step.parameter_bytes + step.optimizer_bytes);
  return memory;
}

ModelConfig DenseOf(ModelConfig config) {
  for (auto& [key, factorisation] : config.layers_by_name) factorisation = {};
  return config;
}

absl::StatusOr<ModelConfig> DescribedConfig(
    const v1::JobSpec& spec, int64_t vocabulary,
    std::vector<std::string>* assumptions) {
  if (spec.model().family() == v1::ModelSpec::DLRM) {
    return MakeModelConfig(spec, DescribedClicks(spec, assumptions));
  }
  ASSIGN_OR_RETURN(vocabulary,
                   DescribedVocabulary(spec, vocabulary, assumptions));
  if (spec.model().family() != v1::ModelSpec::ENCODER_CLASSIFIER ||
      spec.model().classes() > 0) {
    return MakeModelConfig(spec, vocabulary);
  }
  assumptions->push_back("classes: 2, since the labels were not read");
  v1::JobSpec with_classes = spec;
  with_classes.mutable_model()->set_classes(2);
  return MakeModelConfig(with_classes, vocabulary);
}

BackendOptions BackendOptionsOf(const TrainerTask& task) {
  BackendOptions options;
  options.device = task.device();
  options.precision = task.spec().training().precision();
  options.threads = task.threads();
  if (options.threads == 0) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    options.threads = std::max(1, cores / std::max(task.local_world_size(), 1));
  }
  return options;
}

}  // namespace

absl::StatusOr<TaskDescription> Describe(const TrainerTask& task,
                                         const DescribeOptions& options) {
  if (task.spec().has_program()) {
    return absl::FailedPreconditionError(
        "program: what a program of your own does and takes is not known "
        "before it runs");
  }
  const int64_t process_bytes = ResidentBytes();  // before anything is built
  TaskDescription result;
  const v1::JobSpec& spec = task.spec();
  ASSIGN_OR_RETURN(ModelConfig config, DescribedConfig(spec, options.vocabulary,
                                                       &result.assumptions));
  std::string why;
  const Machine machine = MachineOf(BackendOptionsOf(task));
  config.machine = LoadCalibration(task.cache_dir(), machine, &why);
  result.machine = config.machine;
  result.machine_name = machine.name;
  result.calibrated = !(config.machine == machine.defaults);
  if (!why.empty()) result.assumptions.push_back(why);
  if (!result.calibrated) {
    result.assumptions.push_back(
        "seconds: this machine was not measured (comera-trainer --calibrate)");
  }
  result.ranks = std::max(task.world_size(), 1);
  result.batch_size = spec.training().batch_size() / result.ranks;
  if (result.batch_size < 1 ||
      spec.training().batch_size() % result.ranks != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("training.batch_size: ", spec.training().batch_size(),
                     " is not a multiple of ", result.ranks, " processes"));
  }
  result.parts = PartsOfBatch(spec);
  if (result.batch_size % result.parts != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "training.accumulate: ", result.parts, " does not divide the ",
        result.batch_size, " samples of each process"));
  }
  const int64_t part_size = result.batch_size / result.parts;
  ASSIGN_OR_RETURN(result.step, PredictStep(config, part_size, config.machine,
                                            result.parts));
  const ModelConfig dense = DenseOf(config);
  ASSIGN_OR_RETURN(const StepPrediction dense_step,
                   PredictStep(dense, part_size, config.machine, result.parts));
  result.dense_seconds = dense_step.seconds();
  const Batch batch = SyntheticBatch(config, part_size);
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    result.layers.push_back(DescribeLayer(config, layer, batch, result.parts));
  }
  result.parameters = result.step.parameter_bytes / kFloat;
  result.dense_parameters = DenseParameterCount(config);
  result.memory =
      DescribeMemory(result.step, config.machine.threads, process_bytes);
  result.assumptions.push_back(
      "memory: without the tokenised data, which is not read");
  return result;
}

}  // namespace comera::trainer
