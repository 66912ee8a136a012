// Validates the data part of a job: the source of samples, and the tokenizer.
#ifndef COMERA_PROTO_VALIDATION_DATA_VALIDATION_H_
#define COMERA_PROTO_VALIDATION_DATA_VALIDATION_H_

#include "comera/v1/job.pb.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// Adds what is wrong with the data part; `spec` has its defaults filled in.
void CheckData(const v1::JobSpec& spec, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_DATA_VALIDATION_H_
