// Validates DLRM jobs: the model's shape, its click logs, and that no job sets
// fields of another kind of model.
#ifndef COMERA_PROTO_VALIDATION_DLRM_VALIDATION_H_
#define COMERA_PROTO_VALIDATION_DLRM_VALIDATION_H_

#include "comera/v1/job.pb.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// Checks the model part of a DLRM; `spec` has its defaults filled in.
void CheckDlrmModel(const v1::JobSpec& spec, SpecChecker& check);
// Checks the data part of a DLRM.
void CheckClickLog(const v1::JobSpec& spec, SpecChecker& check);
// Checks that the job of another family sets no field that only a DLRM has.
void CheckNothingOfDlrm(const v1::JobSpec& spec, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_DLRM_VALIDATION_H_
