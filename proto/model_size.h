// Bounds on the size of a model that follow from its specification alone.
#ifndef COMERA_PROTO_MODEL_SIZE_H_
#define COMERA_PROTO_MODEL_SIZE_H_

#include "comera/v1/job.pb.h"

namespace comera {

// Both functions take a specification with its defaults filled in and its
// fields within their bounds. They return doubles because products of bounded
// fields may still exceed int64.

// The parameters left when every compressed layer has lost all its ranks:
// biases, norms, position and segment embeddings, dense classes.
double SmallestModelParameters(const v1::JobSpec& spec);

// An upper bound on the parameters with which the model starts. Layers whose
// modes are chosen automatically count as dense.
double LargestModelParameters(const v1::JobSpec& spec);

}  // namespace comera

#endif  // COMERA_PROTO_MODEL_SIZE_H_
