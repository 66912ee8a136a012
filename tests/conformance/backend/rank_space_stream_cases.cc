// Rows for the ends of a branch in rank space.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/reference/rank_space_stream.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Values = std::vector<DoubleMatrix>;

constexpr float kEpsilon = 1e-3f;
constexpr uint32_t kSite = 6;
constexpr int64_t kFirstRow = 17;

DropoutKey Key(float rate, const DeviceOperands& d) {
  return {rate, kSite, kFirstRow, d.state};
}
reference::DropoutNumbers Numbers(float rate) {
  return {rate, kSeed, kStep, kSite, kFirstRow};
}

struct Shape {
  int64_t rows = 0, rank = 0, cols = 0;
};

std::string Name(const char* op, const Shape& s) {
  return absl::StrCat(op, "_", s.rows, "x", s.cols, "_rank_", s.rank);
}

// Runs `op` with workspace of the size asked for, filled with NaN.
template <typename Op>
absl::Status WithWorkspace(Backend* backend, const Shape& s, const Op& op) {
  const int64_t bytes =
      backend->RankSpaceStreamWorkspaceBytes(s.rows, s.rank, s.cols);
  ASSIGN_OR_RETURN(void* workspace, backend->Allocate(bytes));
  absl::Status status = backend->Fill(
      {static_cast<float*>(workspace), bytes / int64_t{sizeof(float)}},
      std::numeric_limits<float>::quiet_NaN());
  if (status.ok()) status = op(workspace);
  backend->Free(workspace);
  return status;
}

// In place: the residual lies where y goes.
OpCase Expand(const Shape& s, float rate, bool in_place) {
  Operand residual = In("residual", s.rows, s.cols);
  if (in_place) residual.use = Use::kUpdated;
  Operand y = Out("y", s.rows, s.cols);
  if (in_place) y.use = Use::kRead;
  const int y_at = in_place ? 2 : 7;
  return {
      absl::StrCat(Name("ExpandLayerNorm", s), "_percent",
                   static_cast<int>(rate * 100), in_place ? "_in_place" : ""),
      {In("t", s.rows, s.rank + 1), In("b", s.rank + 1, s.cols), residual,
       Packed(In("gamma", 1, s.cols)), Packed(In("beta", 1, s.cols)),
       Out("normalised", s.rows, s.cols),
       Packed(Out("inverse_deviation", 1, s.rows)), y},
      [=](Backend* backend, const DeviceOperands& d) {
        return WithWorkspace(backend, s, [&](void* workspace) {
          return backend->ExpandLayerNorm(
              Key(rate, d), d[0].matrix, d[1].matrix, d[2].matrix,
              d[3].vector(), d[4].vector(), kEpsilon, d[5].matrix,
              d[6].vector(), d[y_at].matrix, workspace);
        });
      },
      [=](Values* v) {
        const DoubleMatrix from = (*v)[2];
        reference::ExpandLayerNorm(Numbers(rate), (*v)[0], (*v)[1], from,
                                   (*v)[3], (*v)[4], kEpsilon, &(*v)[5],
                                   &(*v)[6], &(*v)[y_at]);
      },
      1e-5};
}

// In place: the gradient of the sum takes grad_y's place.
OpCase ExpandBackward(const Shape& s, float rate, bool in_place) {
  Operand grad_y = In("grad_y", s.rows, s.cols);
  if (in_place) grad_y.use = Use::kUpdated;
  Operand grad_residual = Out("grad_residual", s.rows, s.cols);
  if (in_place) grad_residual.use = Use::kRead;
  const int at = in_place ? 2 : 6;
  return {
      absl::StrCat(Name("ExpandLayerNormBackward", s), "_percent",
                   static_cast<int>(rate * 100), in_place ? "_in_place" : ""),
      {In("t", s.rows, s.rank + 1), In("b", s.rank + 1, s.cols), grad_y,
       In("normalised", s.rows, s.cols),
       Packed(Within(0.5, 2, In("inverse_deviation", 1, s.rows))),
       Packed(In("gamma", 1, s.cols)), grad_residual,
       Out("grad_t", s.rows, s.rank), Updated("grad_b", s.rank + 1, s.cols),
       Packed(Updated("grad_gamma", 1, s.cols)),
       Packed(Updated("grad_beta", 1, s.cols))},
      [=](Backend* backend, const DeviceOperands& d) {
        return WithWorkspace(backend, s, [&](void* workspace) {
          return backend->ExpandLayerNormBackward(
              Key(rate, d), d[0].matrix, d[1].matrix, d[2].matrix, d[3].matrix,
              d[4].vector(), d[5].vector(), d[at].matrix, d[7].matrix,
              d[8].matrix, d[9].vector(), d[10].vector(), workspace);
        });
      },
      [=](Values* v) {
        const DoubleMatrix from = (*v)[2];
        reference::ExpandLayerNormBackward(
            Numbers(rate), (*v)[0], (*v)[1], from, (*v)[3], (*v)[4], (*v)[5],
            &(*v)[at], &(*v)[7], &(*v)[8], &(*v)[9], &(*v)[10]);
      },
      1e-5};
}

OpCase Project(const Shape& s, bool scaled) {
  return {absl::StrCat(Name("ProjectBackward", s), scaled ? "_scaled" : ""),
          {In("x", s.rows, s.cols), Packed(In("gamma", 1, s.cols)),
           Packed(In("beta", 1, s.cols)), In("grad_t", s.rows, s.rank),
           In("a", s.cols, s.rank), Updated("grad_a", s.cols, s.rank),
           Updated("grad_x", s.rows, s.cols)},
          [=](Backend* backend, const DeviceOperands& d) {
            return WithWorkspace(backend, s, [&](void* workspace) {
              return backend->ProjectBackward(
                  d[0].matrix, scaled ? d[1].vector() : Vector(),
                  scaled ? d[2].vector() : Vector(), d[3].matrix, d[4].matrix,
                  d[5].matrix, d[6].matrix, workspace);
            });
          },
          [=](Values* v) {
            reference::ProjectBackward((*v)[0], scaled ? &(*v)[1] : nullptr,
                                       scaled ? &(*v)[2] : nullptr, (*v)[3],
                                       (*v)[4], &(*v)[5], &(*v)[6]);
          },
          5e-6};
}

}  // namespace

std::vector<OpCase> RankSpaceStreamCases() {
  std::vector<OpCase> cases;
  // Rows: none, fewer and more than a step, a tile, a range. Columns: less,
  // exactly and more than a panel.
  const Shape shapes[] = {{0, 3, 5},    {4, 0, 5},      {0, 3, 0},
                          {1, 1, 1},    {5, 6, 24},     {13, 16, 128},
                          {61, 3, 129}, {130, 30, 300}, {210, 17, 140}};
  for (const Shape& shape : shapes) {
    for (float rate : {0.0f, 0.1f}) {
      for (bool in_place : {false, true}) {
        cases.push_back(Expand(shape, rate, in_place));
        cases.push_back(ExpandBackward(shape, rate, in_place));
      }
    }
    cases.push_back(Project(shape, false));
    cases.push_back(Project(shape, true));
  }
  // Ranks and columns for which devices have other kernels, and more rows than
  // they have blocks of threads at a time.
  const Shape large[] = {{33, 50, 70}, {40, 70, 50},   {300, 70, 70},
                         {3, 1, 3700}, {300, 130, 40}, {4300, 1, 8}};
  for (const Shape& shape : large) {
    cases.push_back(Sparing(Expand(shape, 0.1f, false)));
    cases.push_back(Sparing(ExpandBackward(shape, 0.1f, false)));
    cases.push_back(Sparing(Project(shape, true)));
  }
  cases.push_back(Sparing(ExpandBackward({520, 2, 1720}, 0.1f, false)));
  return cases;
}

}  // namespace comera::kernels
