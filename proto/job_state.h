#ifndef COMERA_PROTO_JOB_STATE_H_
#define COMERA_PROTO_JOB_STATE_H_

#include "comera/v1/job.pb.h"

namespace comera {

// Whether a job in this state has ended for good.
inline bool IsFinal(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

}  // namespace comera

#endif  // COMERA_PROTO_JOB_STATE_H_
