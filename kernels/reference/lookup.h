// Meaning of the table operations of kernels/backend.h, and the explicit
// matrices that chains of cores stand for.
#ifndef COMERA_KERNELS_REFERENCE_LOOKUP_H_
#define COMERA_KERNELS_REFERENCE_LOOKUP_H_

#include <vector>

#include "kernels/backend.h"
#include "kernels/contraction/tt_shape.h"
#include "kernels/reference/matrix.h"

namespace comera::kernels::reference {

void GatherRows(const DoubleMatrix& table, const DoubleMatrix& rows,
                DoubleMatrix* out);
void SumRows(const DoubleMatrix& table, const DoubleMatrix& rows,
             const DoubleMatrix& offsets, DoubleMatrix* out);
void ScatterAddRows(const DoubleMatrix& in, const DoubleMatrix& rows,
                    DoubleMatrix* table);
void PutRows(const DoubleMatrix& in, const DoubleMatrix& rows,
             DoubleMatrix* table);
// The lists of TtmPairs as matrices of one row.
struct PairLists {
  DoubleMatrix left, out, start;
};
void TtmLookup(const TtmTables& t, const DoubleMatrix& left,
               const DoubleMatrix& right, const PairLists& pairs,
               DoubleMatrix* out);
void TtmLookupBackward(const TtmTables& t, const DoubleMatrix& left,
                       const DoubleMatrix& right, const PairLists& pairs,
                       const DoubleMatrix& grad_out, DoubleMatrix* grad_left,
                       DoubleMatrix* grad_right);

// Entry by entry, each a product of one slice per core.
DoubleMatrix DenseMatrix(const TtShape& shape,
                         const std::vector<DoubleMatrix>& cores);
DoubleMatrix DenseMatrix(const TtmShape& shape,
                         const std::vector<DoubleMatrix>& cores);

}  // namespace comera::kernels::reference

#endif  // COMERA_KERNELS_REFERENCE_LOOKUP_H_
