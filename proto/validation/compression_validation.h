// Validates the compression part of a job: modes and ranks.
#ifndef COMERA_PROTO_VALIDATION_COMPRESSION_VALIDATION_H_
#define COMERA_PROTO_VALIDATION_COMPRESSION_VALIDATION_H_

#include "comera/v1/job.pb.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// Adds what is wrong with the compression; `spec` has its defaults filled in.
void CheckCompression(const v1::JobSpec& spec, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_COMPRESSION_VALIDATION_H_
