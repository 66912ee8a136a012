// Predicts the memory of a job by planning it on a counting backend.
#include "worker/trainer/planning/memory_check.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cost_backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/objective/create_objective.h"
#include "worker/trainer/optimizer/make_optimizer.h"
#include "worker/trainer/planning/phase_table.h"

namespace comera::trainer {
namespace {

constexpr size_t kNamedParts = 3;

// One phase of the job on one member.
struct Shape {
  std::string field;  // the field of the specification that sets the batch
  ModelConfig config;
  int64_t share = 0;       // samples of this member
  int64_t batch_size = 0;  // samples of one part of its share
};

std::vector<Shape> ShapesOf(const v1::JobSpec& spec, const ModelConfig& config,
                            int world_size) {
  std::vector<Shape> shapes;
  const bool one = spec.training().phases().empty();
  const PhaseTable phases(spec);
  for (const TrainingPhase& phase : phases.phases()) {
    Shape shape;
    shape.field =
        one ? "training.batch_size"
            : absl::StrCat("training.phases[", shapes.size(), "].batch_size");
    shape.config = config;
    if (!one) shape.config.length = phase.length;
    shape.share = phase.batch_size / world_size;
    shape.batch_size = shape.share / PartsOfBatch(spec);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

// The model's own words about its largest pieces, if it has any.
std::string LargestPieces(const Shape& shape, const ModelFactory& factory,
                          kernels::Backend* sizes) {
  kernels::OperationCosts costs;
  costs.memory_limit_bytes = 1;
  const auto backend =
      kernels::CreateCostBackend(sizes, shape.config.machine, &costs);
  const auto model = factory(shape.config, shape.batch_size, backend.get());
  const std::string message(model.status().message());
  const size_t at = message.find("largest: ");
  return at == std::string::npos ? ""
                                 : absl::StrCat(" (", message.substr(at), ")");
}

// The most samples that fit, fewer than shape.batch_size; 0: not even one.
absl::StatusOr<int64_t> LargestBatch(const v1::JobSpec& spec,
                                     const Shape& shape, int64_t free,
                                     const ModelFactory& factory,
                                     kernels::Backend* backend) {
  int64_t fits = 0, too_many = shape.batch_size;
  while (fits + 1 < too_many) {
    const int64_t middle = fits + (too_many - fits) / 2;
    ASSIGN_OR_RETURN(
        const MemoryNeed need,
        PredictMemory(spec, shape.config, middle, factory, backend));
    (need.bytes <= free ? fits : too_many) = middle;
  }
  return fits;
}

// Advises what would fit, where parts of so many samples do; 0: none do.
std::string Advice(const v1::JobSpec& spec, const Shape& shape, int world_size,
                   int64_t fits) {
  const int64_t parts_of_batch = PartsOfBatch(spec) * world_size;
  if (fits == 0) {
    return absl::StrCat("; not even ", shape.field, ": ", parts_of_batch,
                        " fits");
  }
  std::string advice =
      absl::StrCat("; ", shape.field, ": ", fits * parts_of_batch,
                   " would fit, ", shape.share * world_size, " does not");
  if (shape.config.gradients_by_block) return advice;
  // The fewest parts that divide the share.
  int64_t parts = (shape.share + fits - 1) / fits;
  while (shape.share % parts != 0) ++parts;
  return absl::StrCat(advice, "; training.accumulate: ", parts,
                      " would fit, too");
}

}  // namespace

absl::StatusOr<MemoryNeed> PredictMemory(const v1::JobSpec& spec,
                                         const ModelConfig& config,
                                         int64_t batch_size,
                                         const ModelFactory& factory,
                                         kernels::Backend* backend) {
  kernels::OperationCosts costs;
  const auto counting =
      kernels::CreateCostBackend(backend, config.machine, &costs);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ModelPlan> plan,
      ModelPlan::Create(config, batch_size, factory, counting.get()));
  const Model& model = plan->model();
  ASSIGN_OR_RETURN(
      const auto objective,
      CreateObjective(spec.objective().kind(), {}, model.tensorised_layers(),
                      model.layout(), counting.get()));
  ASSIGN_OR_RETURN(const auto optimizer,
                   MakeOptimizer(spec, config, model.layout(), counting.get()));
  MemoryNeed need;
  need.bytes = costs.most_allocated_bytes;
  int64_t rest = need.bytes;
  const auto add = [&](const char* name, int64_t bytes) {
    need.parts.emplace_back(name, bytes);
    rest -= bytes;
  };
  constexpr int64_t kFloat = sizeof(float);
  add("activations and workspace", model.activation_bytes());
  need.state_bytes = (plan->size() + 2 * model.layout().moments_size() +
                      model.layout().projectors_size()) *
                     kFloat;
  add("parameters", plan->size() * kFloat);
  add("gradients", plan->gradients().size * kFloat);
  add("moments", 2 * model.layout().moments_size() * kFloat);
  add("projectors", model.layout().projectors_size() * kFloat);
  need.parts.emplace_back("optimiser and objective", rest);
  std::stable_sort(
      need.parts.begin(), need.parts.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  return need;
}

namespace {

// The phase that needs most, and what it needs.
struct Worst {
  Shape shape;
  MemoryNeed need;
};

absl::StatusOr<Worst> WorstOf(const v1::JobSpec& spec,
                              const ModelConfig& config, int world_size,
                              const ModelFactory& factory,
                              kernels::Backend* backend) {
  Worst worst;
  for (const Shape& shape : ShapesOf(spec, config, world_size)) {
    ASSIGN_OR_RETURN(
        MemoryNeed need,
        PredictMemory(spec, shape.config, shape.batch_size, factory, backend));
    if (need.bytes <= worst.need.bytes) continue;
    worst.need = std::move(need);
    worst.shape = shape;
  }
  return worst;
}

}  // namespace

absl::StatusOr<MemoryNeed> LargestNeed(const v1::JobSpec& spec,
                                       const ModelConfig& config,
                                       int world_size,
                                       const ModelFactory& factory,
                                       kernels::Backend* backend) {
  ASSIGN_OR_RETURN(Worst worst,
                   WorstOf(spec, config, world_size, factory, backend));
  return std::move(worst.need);
}

absl::Status CheckMemory(const v1::JobSpec& spec, const ModelConfig& config,
                         int world_size, const ModelFactory& factory,
                         kernels::Backend* backend) {
  ASSIGN_OR_RETURN(const Worst found,
                   WorstOf(spec, config, world_size, factory, backend));
  const auto& [worst, most] = found;
  ASSIGN_OR_RETURN(const int64_t free, backend->FreeBytes());
  if (most.bytes <= free) return absl::OkStatus();

  std::string message =
      absl::StrCat("out of memory: training needs ", most.bytes, " bytes, ",
                   free, " are free; largest:");
  for (size_t i = 0; i < std::min(kNamedParts, most.parts.size()); ++i) {
    const auto& [name, bytes] = most.parts[i];
    absl::StrAppend(&message, i == 0 ? " " : ", ", name, " ", bytes);
    if (absl::StartsWith(name, "activations")) {
      absl::StrAppend(&message, LargestPieces(worst, factory, backend));
    }
  }
  ASSIGN_OR_RETURN(const int64_t fits,
                   LargestBatch(spec, worst, free, factory, backend));
  return absl::ResourceExhaustedError(
      absl::StrCat(message, Advice(spec, worst, world_size, fits)));
}

}  // namespace comera::trainer
