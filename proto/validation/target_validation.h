// Validates what a target asks of the validation set.
#ifndef COMERA_PROTO_VALIDATION_TARGET_VALIDATION_H_
#define COMERA_PROTO_VALIDATION_TARGET_VALIDATION_H_

#include <string>

#include "comera/v1/job.pb.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// Adds what is wrong with the target's quality, for the model and the objective
// of `spec`. `prefix` is the target's field.
void CheckTargetQuality(const v1::JobSpec& spec, const v1::Target& target,
                        const std::string& prefix, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_TARGET_VALIDATION_H_
