// The data part of job validation: where samples come from and their tokens.
#ifndef COMERA_PROTO_DATA_VALIDATION_H_
#define COMERA_PROTO_DATA_VALIDATION_H_

#include "comera/v1/job.pb.h"
#include "proto/spec_checker.h"

namespace comera {

// `spec` has its defaults filled in.
void CheckData(const v1::JobSpec& spec, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_DATA_VALIDATION_H_
