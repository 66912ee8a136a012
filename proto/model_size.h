// Bounds on a model's size that follow from its specification alone.
#ifndef COMERA_PROTO_MODEL_SIZE_H_
#define COMERA_PROTO_MODEL_SIZE_H_

#include "comera/v1/job.pb.h"

namespace comera {

// Both take a specification with its defaults filled in whose fields are
// within their bounds. Doubles, as products of bounded fields may still pass
// int64's range.

// What is left when every compressed layer has lost all its ranks: biases,
// LayerNorms, position and segment embeddings, dense classes.
double SmallestModelParameters(const v1::JobSpec& spec);

// No model of this specification starts with more parameters. Layers whose
// modes are chosen automatically count as dense.
double LargestModelParameters(const v1::JobSpec& spec);

}  // namespace comera

#endif  // COMERA_PROTO_MODEL_SIZE_H_
