#ifndef COMERA_WORKER_TRAINER_LATE_CANONICAL_FORM_H_
#define COMERA_WORKER_TRAINER_LATE_CANONICAL_FORM_H_

#include <vector>

#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::trainer {

// Rewrites every tensor-train layer so that the entries of a bond are as
// unequal in importance as they can be, without changing what the layer
// computes.
//
// A bond may be given any basis: G_i X and X^-1 G_{i+1} are the same layer. In
// the basis chosen here the k-th slices on both sides of bond i carry the k-th
// singular value of the layer's i-th unfolding, half (its root) each: dropping
// entry k alone is then the best rank reduction of that bond, and its error
// that singular value (the Vidal form of a tensor train, arXiv
// quant-ph/0301063, its diagonal shared evenly between the neighbours). All
// rank entries become 1, and the cores keep their relative root mean squares,
// since the optimiser's steps are absolute.
//
// A nonlinear bond keeps its basis: its rank entries go into the core before
// it, and the trains on its two sides are rewritten each by itself.
//
// In the optimiser's state the first moment of these parameters becomes 0; the
// second is carried over as its mean per core and bond, weighed by the singular
// values beside each slice, to which the gradients are proportional.
//
// The buffers are host memory, in one layout; every rank entry must be alive.
// Deterministic: it uses double arithmetic and square roots only.
void MakeCanonical(const ParameterLayout& layout,
                   const std::vector<TensorisedLayer>& layers,
                   float* parameters, float* first_moment,
                   float* second_moment);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LATE_CANONICAL_FORM_H_
