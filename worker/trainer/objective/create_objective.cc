// Chooses the objective that a job's specification names.
#include "worker/trainer/objective/create_objective.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/objective/pareto_objective.h"
#include "worker/trainer/objective/reference_objective.h"
#include "worker/trainer/objective/size_measure.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<Objective>> CreateObjective(
    v1::ObjectiveSpec::Kind kind, const ObjectiveOptions& options,
    const std::vector<TensorisedLayer>& layers, const ParameterLayout& layout,
    kernels::Backend* backend) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<SizeMeasure> measure,
      SizeMeasure::Create(layers, layout, options.rank_threshold, backend));
  switch (kind) {
    case v1::ObjectiveSpec::PARETO:
      return std::make_unique<ParetoObjective>(options, std::move(measure),
                                               layout, backend);
    case v1::ObjectiveSpec::REFERENCE:
      return std::make_unique<ReferenceObjective>(options, std::move(measure),
                                                  backend);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("objective.kind: ", static_cast<int>(kind)));
  }
}

}  // namespace comera::trainer
