#ifndef COMERA_WORKER_TRAINER_OBJECTIVE_CREATE_OBJECTIVE_H_
#define COMERA_WORKER_TRAINER_OBJECTIVE_CREATE_OBJECTIVE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "kernels/backend.h"
#include "worker/trainer/model/plan/parameter_layout.h"
#include "worker/trainer/objective/objective.h"

namespace comera::trainer {

// `layers` are the layers of `layout`; their modes define the size. Copies what
// it needs of both. InvalidArgument: unknown kind, or layers that do not fit.
absl::StatusOr<std::unique_ptr<Objective>> CreateObjective(
    v1::ObjectiveSpec::Kind kind, const ObjectiveOptions& options,
    const std::vector<TensorisedLayer>& layers, const ParameterLayout& layout,
    kernels::Backend* backend);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OBJECTIVE_CREATE_OBJECTIVE_H_
