#ifndef COMERA_PROTO_VALIDATION_PROGRAM_VALIDATION_H_
#define COMERA_PROTO_VALIDATION_PROGRAM_VALIDATION_H_

#include "comera/v1/job.pb.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// Checks the program of a job that has one, and that the job has nothing that
// only models of the service have.
void CheckProgram(const v1::JobSpec& spec, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_PROGRAM_VALIDATION_H_
