// Validates a job's specification, in clients before they send it and in the
// coordinator before it accepts it.
#ifndef COMERA_PROTO_VALIDATION_JOB_VALIDATION_H_
#define COMERA_PROTO_VALIDATION_JOB_VALIDATION_H_

#include <string>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera {

struct FieldViolation {
  // The field's path as in a job file: `compression.attention.input_modes`,
  // `data.code_directory.roots[1]`.
  std::string field;
  // What is wrong with it and what would be right, without the field's name.
  std::string description;
};

// Returns everything that is wrong with `spec`. Works on specs as users write
// them and on those that went through WithDefaults. Opens no file, because data
// lie on the workers. Never fails, whatever the spec holds. If nothing is wrong
// and `filled` is set, it becomes WithDefaults(spec).
std::vector<FieldViolation> ValidateJobSpec(const v1::JobSpec& spec,
                                            v1::JobSpec* filled = nullptr);

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_JOB_VALIDATION_H_
