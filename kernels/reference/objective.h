// Meaning of the loss and optimiser operations of kernels/backend.h.
#ifndef COMERA_KERNELS_REFERENCE_OBJECTIVE_H_
#define COMERA_KERNELS_REFERENCE_OBJECTIVE_H_

#include <vector>

#include "kernels/backend.h"
#include "kernels/reference/matrix.h"

namespace comera::kernels::reference {

// grad_logits may be null.
void SoftmaxCrossEntropy(const DoubleMatrix& logits, const DoubleMatrix& labels,
                         DoubleMatrix* grad_logits, DoubleMatrix* totals);
// grad_logits may be null.
void SigmoidCrossEntropy(const DoubleMatrix& logits, const DoubleMatrix& labels,
                         DoubleMatrix* grad_logits, DoubleMatrix* totals);
// `state` and `squares`: what the pointers of `rule` point to, if they do.
void OrthogonalStep(const OrthogonalRule& rule,
                    const std::vector<OrthogonalSegment>& segments,
                    DoubleMatrix* parameters, const DoubleMatrix& gradients,
                    DoubleMatrix* momentum, const StepState* state = nullptr,
                    double squares = 0);
double SumOfSquares(const DoubleMatrix& x);
// `state` and `squares`: what the pointers of `step` point to, if they do.
void AdamW(const AdamWStep& step, const std::vector<AdamWSegment>& segments,
           DoubleMatrix* parameters, const DoubleMatrix& gradients,
           DoubleMatrix* first_moment, DoubleMatrix* second_moment,
           const StepState* state = nullptr, double squares = 0);
void BondNorms(const DoubleMatrix& parameters,
               const std::vector<BondSpan>& bonds, double threshold,
               DoubleMatrix* l1, DoubleMatrix* count);
void RelaxedSizeGradient(const std::vector<SizeBond>& bonds,
                         const DoubleMatrix& l1, const DoubleMatrix& counts,
                         double factor, DoubleMatrix* coefficient);
void AddBondGradient(const DoubleMatrix& parameters,
                     const std::vector<BondSpan>& bonds,
                     const DoubleMatrix& coefficient, double threshold,
                     DoubleMatrix* gradients);

}  // namespace comera::kernels::reference

#endif  // COMERA_KERNELS_REFERENCE_OBJECTIVE_H_
