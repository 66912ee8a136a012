// Bounds on the size of a DLRM that follow from its specification alone; see
// model_size.h.
#ifndef COMERA_PROTO_DLRM_SIZE_H_
#define COMERA_PROTO_DLRM_SIZE_H_

#include "comera/v1/job.pb.h"

namespace comera {

double SmallestDlrmParameters(const v1::JobSpec& spec);
double LargestDlrmParameters(const v1::JobSpec& spec);

}  // namespace comera

#endif  // COMERA_PROTO_DLRM_SIZE_H_
