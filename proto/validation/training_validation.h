// Validates the training part of a job: batches, processes, phases, precision,
// and initial weights.
#ifndef COMERA_PROTO_VALIDATION_TRAINING_VALIDATION_H_
#define COMERA_PROTO_VALIDATION_TRAINING_VALIDATION_H_

#include "comera/v1/job.pb.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// Adds what is wrong with the training part; `spec` has its defaults filled in.
void CheckTraining(const v1::JobSpec& spec, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_TRAINING_VALIDATION_H_
