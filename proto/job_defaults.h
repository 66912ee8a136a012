// The defaults that job.proto documents, in one place.
#ifndef COMERA_PROTO_JOB_DEFAULTS_H_
#define COMERA_PROTO_JOB_DEFAULTS_H_

#include "comera/v1/job.pb.h"

namespace comera {

// Returns `spec` with every unset field that has a default filled in. The
// server stores the filled spec, so that a later change of a default changes no
// old job, and the trainer need not know defaults. Filling twice changes
// nothing. Modes that are chosen automatically stay empty, because only the
// trainer knows the vocabulary.
v1::JobSpec WithDefaults(v1::JobSpec spec);

}  // namespace comera

#endif  // COMERA_PROTO_JOB_DEFAULTS_H_
