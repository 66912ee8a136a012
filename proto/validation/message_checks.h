// Checks of untrusted messages that hold for every field, by reflection.
#ifndef COMERA_PROTO_VALIDATION_MESSAGE_CHECKS_H_
#define COMERA_PROTO_VALIDATION_MESSAGE_CHECKS_H_

#include <vector>

#include "google/protobuf/message.h"
#include "proto/validation/job_validation.h"

namespace comera {

// Refuses NaN and infinite numbers, enum numbers without a name, unknown
// fields, and strings that are not UTF-8, hold control characters or are longer
// than 4096 bytes.
void CheckFields(const google::protobuf::Message& message,
                 std::vector<FieldViolation>* violations);

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_MESSAGE_CHECKS_H_
