// What the two ways through a feed-forward layer between rank vectors cost.
#ifndef COMERA_KERNELS_CONTRACTION_FFN_COST_H_
#define COMERA_KERNELS_CONTRACTION_FFN_COST_H_

#include "kernels/backend.h"
#include "kernels/machine_speed.h"

namespace comera::kernels {

struct FfnSeconds {
  double forward = 0;
  double backward = 0;
  double total() const { return forward + backward; }
};

// The way from T~ of the upper to T of the lower layer with the hidden layer in
// memory: a product, GELU, a product; backward computes the hidden layer again.
FfnSeconds HiddenFfnSeconds(const RankSpaceFfnShape& shape,
                            const MachineSpeed& speed);
// The way that RankSpaceFfn takes. The multiply-adds are equal but for ranks
// that are filled up; what differs is what they cost: no packing of thin
// operands, no passes over the hidden layer, one exponential for GELU and its
// slope. Against that, with large ranks a block's weights and their sums no
// longer fit the cache of a core and are read again for every tile of tokens.
FfnSeconds RankSpaceFfnSeconds(const RankSpaceFfnShape& shape,
                               const MachineSpeed& speed);

// Whether the latter takes less. It depends on the arguments alone, so that all
// members of a gang choose alike.
bool RankSpaceFfnPays(const RankSpaceFfnShape& shape,
                      const MachineSpeed& speed);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_FFN_COST_H_
