// A dense tensor as a tensor train.
#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_TT_SVD_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_TT_SVD_H_

#include <cstdint>
#include <vector>

namespace comera::trainer {

struct TtCores {
  // Core k: (r_{k-1}, n_k, r_k), row-major; r_0 and the last rank are 1.
  std::vector<std::vector<float>> cores;
  // Frobenius norm of what the truncation lost, and of the tensor.
  double error = 0;
  double norm = 0;
};

// Truncated TT-SVD (Oseledets, SIAM J. Sci. Comput. 33 (2011), algorithm 1) of
// a row-major tensor: error^2 <= sum over bonds of the squares of the singular
// values that the bond's rank cuts off its unfolding, so the error is at most
// sqrt(bonds) times that of the best train of these ranks, and rounding where
// the ranks suffice.
//
// From either end towards the middle, whichever side of an unfolding is
// smaller, its leading singular vectors are eigenvectors of its Gram matrix in
// double. Of large sides of which little is wanted they are found by randomised
// subspace iteration instead, with an error slightly above the bound
// (leading_subspace.h).
//
// The cores come out with each bond's singular values split evenly between its
// two neighbours, in descending order, and equal norms: dropping entry k of a
// bond then costs what its singular value says, both neighbours learn at one
// speed, and an l2 penalty of the cores has nothing to shift between them.
// Where a bond has more rank than the tensor, the surplus slices are small on
// the left and 0 on the right, so that they add nothing and can still learn.
//
// `modes`: at least 2, product = number of values. `ranks`: one less, each at
// least 1 and at most what its bond can hold given the others
// (MakeModelConfig cuts them so). `values` is consumed.
TtCores TtSvd(std::vector<float> values, const std::vector<int64_t>& modes,
              const std::vector<int64_t>& ranks);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_TT_SVD_H_
