// Rows for products, copies, sums and transpositions.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/reference/linear.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using Values = std::vector<reference::DoubleMatrix>;

OpCase GemmCase(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                float beta) {
  Operand c = Updated("c", m, n);
  // With beta = 0 the old values are not read: they are NaN.
  if (beta == 0) c.use = Use::kWritten;
  return {absl::StrCat("Gemm_", ta ? "T" : "N", tb ? "T" : "N", "_", m, "x", n,
                       "x", k, beta == 0 ? "" : "_beta"),
          {In("a", ta ? k : m, ta ? m : k), In("b", tb ? n : k, tb ? k : n), c},
          [=](Backend* backend, const DeviceOperands& d) {
            return backend->Gemm(ta, tb, alpha, d[0].matrix, d[1].matrix, beta,
                                 d[2].matrix);
          },
          [=](Values* v) {
            reference::Gemm(ta, tb, alpha, (*v)[0], (*v)[1], beta, &(*v)[2]);
          },
          5e-6};
}

OpCase GemmBiasCase(bool transpose, int64_t m, int64_t n, int64_t k) {
  return {
      absl::StrCat("GemmBias_N", transpose ? "T" : "N", "_", m, "x", n, "x", k),
      {In("a", m, k), In("b", transpose ? n : k, transpose ? k : n),
       Packed(In("bias", 1, n)), Out("c", m, n)},
      [=](Backend* backend, const DeviceOperands& d) {
        return backend->GemmBias(transpose, d[0].matrix, d[1].matrix,
                                 d[2].vector(), d[3].matrix);
      },
      [=](Values* v) {
        reference::Gemm(false, transpose, 1, (*v)[0], (*v)[1], 0, &(*v)[3]);
        reference::AddBias((*v)[2], &(*v)[3]);
      },
      5e-6};
}

// Copies the left columns of a wide matrix into the right ones of another.
OpCase CopyRowsCase(int64_t rows, int64_t cols) {
  const int64_t wide = cols + 3;
  return {absl::StrCat("CopyRows_", rows, "x", cols),
          {In("from", rows, wide), Updated("to", rows, wide)},
          [=](Backend* backend, const DeviceOperands& d) {
            const Matrix &from = d[0].matrix, &to = d[1].matrix;
            return backend->CopyRows(
                ConstMatrix(from.data, rows, cols, from.stride),
                Matrix(to.data + 3, rows, cols, to.stride));
          },
          [=](Values* v) {
            for (int64_t i = 0; i < rows; ++i) {
              for (int64_t j = 0; j < cols; ++j) {
                (*v)[1].at(i, j + 3) = (*v)[0].at(i, j);
              }
            }
          },
          0};
}

OpCase SwapCase(int64_t a, int64_t b, int64_t c, int64_t d) {
  return {absl::StrCat("SwapMiddleAxes_", a, "x", b, "x", c, "x", d),
          {Packed(In("in", a * b, c * d)), Packed(Out("out", a * c, b * d))},
          [=](Backend* backend, const DeviceOperands& o) {
            return backend->SwapMiddleAxes(a, b, c, d, o[0].matrix.data,
                                           o[1].matrix.data);
          },
          [=](Values* v) {
            reference::SwapMiddleAxes(a, b, c, d, (*v)[0], &(*v)[1]);
          },
          0};
}

void AddVectorCases(int64_t n, std::vector<OpCase>* cases) {
  cases->push_back(
      {absl::StrCat("Axpy_", n),
       {Packed(In("x", 1, n)), Packed(Updated("y", 1, n))},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->Axpy(-0.75f, d[0].vector(), d[1].vector());
       },
       [](Values* v) { reference::Axpy(-0.75, (*v)[0], &(*v)[1]); }});
  cases->push_back({absl::StrCat("Scale_", n),
                    {Packed(Updated("x", 1, n))},
                    [](Backend* backend, const DeviceOperands& d) {
                      return backend->Scale(1.5f, d[0].vector());
                    },
                    [](Values* v) {
                      for (double& value : (*v)[0].values) value *= 1.5;
                    }});
  // Counts below 1 divide by 1.
  for (double count : {0.0, 4.0}) {
    Operand divisor = Packed(In("count", 1, 1));
    divisor.values = {count};
    cases->push_back({absl::StrCat("ScaleByCount_", n, "_by", count),
                      {Packed(Updated("x", 1, n)), divisor},
                      [](Backend* backend, const DeviceOperands& d) {
                        return backend->ScaleByCount(1.5f, d[1].matrix.data,
                                                     d[0].vector());
                      },
                      [=](Values* v) {
                        for (double& value : (*v)[0].values) {
                          value *= 1.5 / std::max(1.0, count);
                        }
                      }});
  }
  cases->push_back({absl::StrCat("Fill_", n),
                    {Packed(Out("x", 1, n))},
                    [](Backend* backend, const DeviceOperands& d) {
                      return backend->Fill(d[0].vector(), 0.25f);
                    },
                    [](Values* v) {
                      for (double& value : (*v)[0].values) value = 0.25;
                    },
                    0});
  cases->push_back({absl::StrCat("Copy_", n),
                    {Packed(In("from", 1, n)), Packed(Out("to", 1, n))},
                    [=](Backend* backend, const DeviceOperands& d) {
                      return backend->Copy(d[1].matrix.data, d[0].matrix.data,
                                           n * sizeof(float));
                    },
                    [](Values* v) { (*v)[1] = (*v)[0]; },
                    0});
}

void AddBiasCases(int64_t rows, int64_t cols, std::vector<OpCase>* cases) {
  cases->push_back({absl::StrCat("AddBias_", rows, "x", cols),
                    {Packed(In("bias", 1, cols)), Updated("y", rows, cols)},
                    [](Backend* backend, const DeviceOperands& d) {
                      return backend->AddBias(d[0].vector(), d[1].matrix);
                    },
                    [](Values* v) { reference::AddBias((*v)[0], &(*v)[1]); }});
  cases->push_back(
      {absl::StrCat("BiasGradient_", rows, "x", cols),
       {In("grad_y", rows, cols), Packed(Updated("grad_bias", 1, cols))},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->BiasGradient(d[0].matrix, d[1].vector());
       },
       [](Values* v) { reference::BiasGradient((*v)[0], &(*v)[1]); },
       5e-6});
}

}  // namespace

std::vector<OpCase> LinearCases() {
  std::vector<OpCase> cases;
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      cases.push_back(GemmCase(ta, tb, 0, 5, 3, 1, 0));
      cases.push_back(GemmCase(ta, tb, 5, 0, 3, 1, 0.5f));
      cases.push_back(GemmCase(ta, tb, 4, 5, 0, 1, 0));
      cases.push_back(GemmCase(ta, tb, 4, 5, 0, 1, 0.5f));
      cases.push_back(GemmCase(ta, tb, 1, 1, 1, 2, 0));
      cases.push_back(GemmCase(ta, tb, 7, 13, 11, 0.5f, 1));
      cases.push_back(GemmCase(ta, tb, 12, 30, 31, 1, 0));
      cases.push_back(GemmCase(ta, tb, 1, 65, 33, 1, -1));
      cases.push_back(GemmCase(ta, tb, 129, 1, 70, 1, 0));
      cases.push_back(GemmCase(ta, tb, 131, 67, 45, 1, 0));
      cases.push_back(GemmCase(ta, tb, 256, 30, 96, -2, 0.5f));
      cases.push_back(GemmCase(ta, tb, 293, 30, 112, 1, 0));
      // More than IsSmallProduct takes.
      cases.push_back(GemmCase(ta, tb, 163, 171, 157, -2, 0.5f));
    }
  }
  for (bool transpose : {false, true}) {
    cases.push_back(GemmBiasCase(transpose, 0, 5, 3));
    cases.push_back(GemmBiasCase(transpose, 5, 0, 3));
    cases.push_back(GemmBiasCase(transpose, 4, 5, 0));
    cases.push_back(GemmBiasCase(transpose, 1, 1, 1));
    cases.push_back(GemmBiasCase(transpose, 131, 68, 44));
    cases.push_back(GemmBiasCase(transpose, 70, 68, 500));
    cases.push_back(GemmBiasCase(transpose, 160, 172, 164));
    cases.push_back(GemmBiasCase(transpose, 163, 171, 157));
  }
  // Few tokens against a matrix: every number of rows, and of what is left
  // beside whole tiles; more columns and terms than are taken at a time.
  for (bool tb : {false, true}) {
    for (int64_t m = 2; m <= 9; ++m) {
      cases.push_back(GemmCase(false, tb, m, 258 + m, 21, 0.5f, m % 2));
    }
    cases.push_back(GemmCase(false, tb, 3, 270, 1031, 1, -0.5f));
    cases.push_back(GemmCase(false, tb, 8, 8203, 6, 1, 0));
  }
  cases.push_back(GemmCase(false, false, 1, 157, 40, 0.5f, 1));
  cases.push_back(GemmCase(true, false, 5, 600, 9, -1, 0.5f));
  cases.push_back(GemmCase(true, true, 5, 600, 9, -1, 0.5f));
  // Many tokens against a small rank, as in gradients of the products.
  cases.push_back(GemmCase(true, false, 30, 96, 1500, 1, 1));
  for (int64_t n : {0, 1, 33, 70001}) AddVectorCases(n, &cases);
  AddBiasCases(0, 3, &cases);
  AddBiasCases(3, 0, &cases);
  AddBiasCases(1, 1, &cases);
  AddBiasCases(65, 7, &cases);
  AddBiasCases(900, 33, &cases);
  cases.push_back(CopyRowsCase(0, 5));
  cases.push_back(CopyRowsCase(5, 0));
  cases.push_back(CopyRowsCase(1, 1));
  cases.push_back(CopyRowsCase(33, 61));
  cases.push_back(CopyRowsCase(700, 128));
  cases.push_back(SwapCase(0, 2, 3, 4));
  cases.push_back(SwapCase(1, 1, 1, 1));
  cases.push_back(SwapCase(2, 3, 5, 7));
  cases.push_back(SwapCase(1, 33, 19, 1));
  cases.push_back(SwapCase(5, 40, 30, 12));
  cases.push_back(SwapCase(7, 50, 70, 1));
  return cases;
}

}  // namespace comera::kernels
