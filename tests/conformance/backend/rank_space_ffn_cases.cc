// Rows for the feed-forward layer between rank vectors.
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/reference/rank_space_ffn.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using Values = std::vector<reference::DoubleMatrix>;

std::string Name(const char* op, const RankSpaceFfnShape& s) {
  return absl::StrCat(op, "_", s.rows, "x", s.width, "_ranks_", s.up_rank, "_",
                      s.down_rank);
}

// Runs `op` with workspace of the size asked for, filled with NaN.
template <typename Op>
absl::Status WithWorkspace(Backend* backend, const RankSpaceFfnShape& shape,
                           const Op& op) {
  const int64_t bytes = backend->RankSpaceFfnWorkspaceBytes(shape);
  ASSIGN_OR_RETURN(void* workspace, backend->Allocate(bytes));
  absl::Status status = backend->Fill(
      {static_cast<float*>(workspace), bytes / int64_t{sizeof(float)}},
      std::numeric_limits<float>::quiet_NaN());
  if (status.ok()) status = op(workspace);
  backend->Free(workspace);
  return status;
}

OpCase Forward(const RankSpaceFfnShape& s) {
  return {Name("RankSpaceFfn", s),
          {In("t1", s.rows, s.up_rank + 1), In("b1", s.up_rank + 1, s.width),
           In("a2", s.width, s.down_rank), Out("t2", s.rows, s.down_rank)},
          [=](Backend* backend, const DeviceOperands& d) {
            return WithWorkspace(backend, s, [&](void* workspace) {
              return backend->RankSpaceFfn(d[0].matrix, d[1].matrix,
                                           d[2].matrix, d[3].matrix, workspace);
            });
          },
          [=](Values* v) {
            reference::RankSpaceFfn((*v)[0], (*v)[1], (*v)[2], &(*v)[3]);
          },
          5e-6};
}

OpCase Backward(const RankSpaceFfnShape& s) {
  return {Name("RankSpaceFfnBackward", s),
          {In("t1", s.rows, s.up_rank + 1), In("b1", s.up_rank + 1, s.width),
           In("a2", s.width, s.down_rank), In("grad_t2", s.rows, s.down_rank),
           Out("grad_t1", s.rows, s.up_rank),
           Updated("grad_b1", s.up_rank + 1, s.width),
           Updated("grad_a2", s.width, s.down_rank)},
          [=](Backend* backend, const DeviceOperands& d) {
            return WithWorkspace(backend, s, [&](void* workspace) {
              return backend->RankSpaceFfnBackward(
                  d[0].matrix, d[1].matrix, d[2].matrix, d[3].matrix,
                  d[4].matrix, d[5].matrix, d[6].matrix, workspace);
            });
          },
          [=](Values* v) {
            reference::RankSpaceFfnBackward((*v)[0], (*v)[1], (*v)[2], (*v)[3],
                                            &(*v)[4], &(*v)[5], &(*v)[6]);
          },
          5e-6};
}

}  // namespace

std::vector<OpCase> RankSpaceFfnCases() {
  std::vector<OpCase> cases;
  // Rows: none, fewer and more than a step, a tile, a range. Widths: less,
  // exactly and more than a block. Ranks: none, one, odd, a register's, more,
  // so many that a device keeps the hidden layer.
  const RankSpaceFfnShape shapes[] = {
      {0, 5, 2, 3},       {4, 0, 2, 3},      {4, 5, 0, 3},
      {4, 5, 2, 0},       {4, 5, 0, 0},      {1, 1, 1, 1},
      {5, 24, 6, 5},      {13, 128, 16, 16}, {37, 129, 3, 17},
      {121, 130, 30, 30}, {140, 70, 7, 33},  {250, 130, 12, 2},
      {97, 70, 49, 8},    {310, 200, 5, 10}, {60, 1100, 10, 11},
      {20, 70, 64, 65},   {530, 33, 100, 5}};
  for (const RankSpaceFfnShape& shape : shapes) {
    cases.push_back(Forward(shape));
    cases.push_back(Backward(shape));
  }
  return cases;
}

}  // namespace comera::kernels
