// Validates what only decoders (CAUSAL_LM) have, and that no other job sets it.
#ifndef COMERA_PROTO_VALIDATION_DECODER_VALIDATION_H_
#define COMERA_PROTO_VALIDATION_DECODER_VALIDATION_H_

#include "comera/v1/job.pb.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// Checks a CAUSAL_LM's architecture, and that its job sets no field that only
// an encoder has; `spec` has its defaults filled in.
void CheckDecoder(const v1::JobSpec& spec, SpecChecker& check);
// Checks that the job of another family sets no field of a decoder.
void CheckNothingOfDecoders(const v1::JobSpec& spec, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_DECODER_VALIDATION_H_
