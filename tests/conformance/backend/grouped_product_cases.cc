// Rows for products between BeginTogether and EndTogether: those in float32,
// those on tensor cores, and long inner sizes, which are cut into parts.
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/reference/linear.h"
#include "kernels/together.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using Values = std::vector<reference::DoubleMatrix>;

OpCase ProductCase(bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                   float alpha, float beta) {
  Operand c = Updated("c", m, n);
  // With beta = 0 the old values are not read: they are NaN.
  if (beta == 0) c.use = Use::kWritten;
  return Sparing(
      {absl::StrCat("GemmTogether_", ta ? "T" : "N", tb ? "T" : "N", "_", m,
                    "x", n, "x", k, beta == 0 ? "" : "_beta"),
       {In("a", ta ? k : m, ta ? m : k), In("b", tb ? n : k, tb ? k : n), c},
       [=](Backend* backend, const DeviceOperands& d) {
         return RunTogether(backend, [&] {
           return backend->Gemm(ta, tb, alpha, d[0].matrix, d[1].matrix, beta,
                                d[2].matrix);
         });
       },
       [=](Values* v) {
         reference::Gemm(ta, tb, alpha, (*v)[0], (*v)[1], beta, &(*v)[2]);
       },
       5e-6});
}

// The rows of c and of a in `count` pieces, each a product of its own, which no
// launch takes all of; then products with the results.
OpCase ManyCase(int64_t count, int64_t rows, int64_t n, int64_t k) {
  const auto piece = [=](const Matrix& m, int64_t i) {
    return Matrix(m.data + i * rows * m.stride, rows, m.cols, m.stride);
  };
  return Sparing(
      {absl::StrCat("GemmTogether_", count, "_of_", rows, "x", n, "x", k),
       {In("a", count * rows, k), In("b", k, n), Out("c", count * rows, n),
        Updated("d", n, n)},
       [=](Backend* backend, const DeviceOperands& d) {
         return RunTogether(backend, [&]() -> absl::Status {
           for (int64_t i = 0; i < count; ++i) {
             RETURN_IF_ERROR(backend->Gemm(false, false, 0.5f,
                                           piece(d[0].matrix, i), d[1].matrix,
                                           0, piece(d[2].matrix, i)));
           }
           return backend->Gemm(true, false, 0.1f, d[2].matrix, d[2].matrix, 1,
                                d[3].matrix);
         });
       },
       [=](Values* v) {
         reference::Gemm(false, false, 0.5, (*v)[0], (*v)[1], 0, &(*v)[2]);
         reference::Gemm(true, false, 0.1, (*v)[2], (*v)[2], 1, &(*v)[3]);
       },
       1e-5});
}

}  // namespace

std::vector<OpCase> GroupedProductCases() {
  std::vector<OpCase> cases;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      // On tensor cores: whole tiles and vectors, in one part and in several;
      // sizes of which nothing is a multiple.
      cases.push_back(ProductCase(ta, tb, 128, 128, 160, 1, 0));
      cases.push_back(ProductCase(ta, tb, 64, 64, 1024, -0.5f, 1));
      cases.push_back(ProductCase(ta, tb, 129, 97, 1023, 0.7f, 0));
      cases.push_back(ProductCase(ta, tb, 65, 130, 259, 1.5f, 0.5f));
      // In float32, in several parts.
      cases.push_back(ProductCase(ta, tb, 33, 5, 1001, 0.7f, 0.5f));
    }
  }
  cases.push_back(ProductCase(false, false, 8, 1030, 300, 1, 0));
  cases.push_back(ProductCase(false, true, 1500, 1403, 1, 1, 1));
  cases.push_back(ProductCase(true, false, 16, 16, 8192, 1, 0));
  cases.push_back(ProductCase(true, false, 3, 2, 20000, 1, 0));
  cases.push_back(ManyCase(650, 3, 5, 300));
  return cases;
}

}  // namespace comera::kernels
