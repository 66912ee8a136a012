// Rows for gathers, bags, scatters, puts and products of pairs of blocks.
#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/reference/lookup.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using Values = std::vector<reference::DoubleMatrix>;

// The pairs that exist: about `percent` of all, every third block of R without.
reference::PairLists Pairs(const TtmTables& t, uint32_t percent) {
  std::mt19937 random(17);
  std::vector<double> left, out, start = {0};
  for (int64_t s = 0; s < t.right_rows; ++s) {
    for (int64_t l = 0; l < t.left_rows; ++l) {
      if (s % 3 == 1 || random() % 100 >= percent) continue;
      left.push_back(static_cast<double>(l));
    }
    start.push_back(static_cast<double>(left.size()));
  }
  out.resize(left.size());
  std::iota(out.begin(), out.end(), 0.0);
  std::shuffle(out.begin(), out.end(), random);
  reference::PairLists pairs;
  for (auto [to, from] : {std::make_pair(&pairs.left, &left),
                          {&pairs.out, &out},
                          {&pairs.start, &start}}) {
    *to = reference::DoubleMatrix(1, static_cast<int64_t>(from->size()));
    to->values = *from;
  }
  return pairs;
}

// `room`: rows of the result, and numbers in the lists, without a pair.
void AddTtmCases(TtmTables t, uint32_t percent, std::vector<OpCase>* cases,
                 int64_t room = 0) {
  reference::PairLists lists = Pairs(t, percent);
  for (reference::DoubleMatrix* list : {&lists.left, &lists.out}) {
    list->values.resize(list->values.size() + room, -7);
  }
  const int64_t count = static_cast<int64_t>(lists.left.values.size());
  const std::string shape = absl::StrCat(
      t.left_outer, "x", t.left_rows, "x", t.left_inner, "_", t.rank, "_",
      t.right_rows, "x", t.right_cols, t.right_blocks ? "_blocks" : "",
      "_pairs", count - room, room > 0 ? "_of_more" : "");
  const int64_t width = t.left_outer * t.left_inner * t.right_cols;
  const Operand left =
      Packed(In("left", t.left_outer * t.left_rows * t.left_inner, t.rank));
  const Operand right =
      Packed(In("right", t.right_rows, t.right_cols * t.rank));
  const Operand a = List("pairs.left", lists.left.values);
  const Operand b = List("pairs.out", lists.out.values);
  const Operand c = List("pairs.start", lists.start.values);
  cases->push_back(
      {"TtmLookup_" + shape,
       {left, right, a, b, c,
        room > 0 ? Updated("out", count, width) : Out("out", count, width)},
       [=](Backend* backend, const DeviceOperands& d) {
         return backend->TtmLookup(
             t, d[0].matrix.data, d[1].matrix.data,
             {d[2].indices(), d[3].indices(), d[4].indices()}, d[5].matrix);
       },
       [=](Values* v) {
         reference::TtmLookup(t, (*v)[0], (*v)[1], {(*v)[2], (*v)[3], (*v)[4]},
                              &(*v)[5]);
       },
       5e-6});
  Operand grad_left = left, grad_right = right;
  grad_left.use = grad_right.use = Use::kWritten;
  cases->push_back({"TtmLookupBackward_" + shape,
                    {left, right, a, b, c, In("grad_out", count, width),
                     grad_left, grad_right},
                    [=](Backend* backend, const DeviceOperands& d) {
                      return backend->TtmLookupBackward(
                          t, d[0].matrix.data, d[1].matrix.data,
                          {d[2].indices(), d[3].indices(), d[4].indices()},
                          d[5].matrix, d[6].matrix.data, d[7].matrix.data);
                    },
                    [=](Values* v) {
                      reference::TtmLookupBackward(t, (*v)[0], (*v)[1],
                                                   {(*v)[2], (*v)[3], (*v)[4]},
                                                   (*v)[5], &(*v)[6], &(*v)[7]);
                    },
                    5e-6});
}

void AddRowCases(int64_t table_rows, int64_t cols, int64_t count,
                 std::vector<OpCase>* cases) {
  const std::string shape = absl::StrCat(table_rows, "x", cols, "_rows", count);
  cases->push_back(
      {"GatherRows_" + shape,
       {In("table", table_rows, cols), Indices("rows", count, table_rows),
        Out("out", count, cols)},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->GatherRows(d[0].matrix, d[1].indices(), d[2].matrix);
       },
       [](Values* v) { reference::GatherRows((*v)[0], (*v)[1], &(*v)[2]); },
       0});
  cases->push_back(
      {"ScatterAddRows_" + shape,
       {In("in", count, cols), Indices("rows", count, table_rows),
        Updated("table", table_rows, cols)},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->ScatterAddRows(d[0].matrix, d[1].indices(),
                                        d[2].matrix);
       },
       [](Values* v) { reference::ScatterAddRows((*v)[0], (*v)[1], &(*v)[2]); },
       5e-6});
}

// The rows are drawn without replacement, or rise from 0.
void AddPutCase(int64_t table_rows, int64_t cols, int64_t count, bool rising,
                std::vector<OpCase>* cases) {
  std::vector<double> rows(table_rows);
  std::iota(rows.begin(), rows.end(), 0.0);
  if (!rising) std::shuffle(rows.begin(), rows.end(), std::mt19937(23));
  rows.resize(count);
  cases->push_back(
      {absl::StrCat("PutRows_", table_rows, "x", cols, "_rows", count,
                    rising ? "_rising" : ""),
       {In("in", count, cols), List("rows", rows),
        Updated("table", table_rows, cols)},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->PutRows(d[0].matrix, d[1].indices(), d[2].matrix);
       },
       [](Values* v) { reference::PutRows((*v)[0], (*v)[1], &(*v)[2]); },
       0});
}

// `count` rows cut into `runs` uneven runs, every third one empty.
void AddSumCase(int64_t table_rows, int64_t cols, int64_t count, int64_t runs,
                std::vector<OpCase>* cases) {
  std::vector<double> offsets = {0};
  for (int64_t i = 0; i < runs; ++i) {
    offsets.push_back(i % 3 == 1 ? offsets.back()
                                 : static_cast<double>(count * (i + 1) / runs));
  }
  if (runs > 0) offsets.back() = static_cast<double>(count);
  cases->push_back(
      {absl::StrCat("SumRows_", table_rows, "x", cols, "_rows", count, "_runs",
                    runs),
       {In("table", table_rows, cols), Indices("rows", count, table_rows),
        List("offsets", offsets), Out("out", runs, cols)},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->SumRows(d[0].matrix, d[1].indices(), d[2].indices(),
                                 d[3].matrix);
       },
       [](Values* v) {
         reference::SumRows((*v)[0], (*v)[1], (*v)[2], &(*v)[3]);
       },
       5e-6});
}

}  // namespace

std::vector<OpCase> LookupCases() {
  std::vector<OpCase> cases;
  // {left_outer, left_rows, left_inner, right_rows, right_cols, rank}
  for (bool blocks : {false, true}) {
    AddTtmCases({1, 1, 1, 1, 1, 1, blocks}, 100, &cases);
    AddTtmCases({1, 3, 2, 5, 6, 4, blocks}, 0, &cases);
    AddTtmCases({1, 3, 2, 5, 6, 0, blocks}, 60, &cases);
    AddTtmCases({2, 3, 2, 5, 0, 4, blocks}, 60, &cases);
    AddTtmCases({1, 0, 2, 5, 3, 4, blocks}, 60, &cases);
    AddTtmCases({1, 3, 2, 0, 3, 4, blocks}, 60, &cases);
    AddTtmCases({3, 5, 2, 7, 6, 4, blocks}, 70, &cases);
    AddTtmCases({1, 20, 9, 21, 13, 11, blocks}, 40, &cases);
    // Several tiles in every direction.
    AddTtmCases({2, 6, 2, 5, 140, 131, blocks}, 50, &cases);
    AddTtmCases({1, 25, 8, 9, 48, 32, blocks}, 60, &cases);
    AddTtmCases({3, 5, 2, 7, 6, 4, blocks}, 70, &cases, /*room=*/9);
    AddTtmCases({1, 3, 2, 5, 6, 4, blocks}, 0, &cases, /*room=*/3);
  }
  AddRowCases(1, 1, 1, &cases);
  AddRowCases(5, 3, 0, &cases);
  AddRowCases(5, 0, 4, &cases);
  AddRowCases(7, 33, 50, &cases);
  AddRowCases(40, 257, 300, &cases);
  // Many rows, and many numbers: several passes and blocks of a sort.
  AddRowCases(70000, 2, 3000, &cases);
  AddPutCase(1, 1, 1, false, &cases);
  AddPutCase(5, 3, 0, false, &cases);
  AddPutCase(5, 0, 4, false, &cases);
  AddPutCase(60, 33, 50, false, &cases);
  AddPutCase(300, 257, 290, false, &cases);
  AddPutCase(60, 36, 7, true, &cases);
  AddSumCase(1, 1, 1, 1, &cases);
  AddSumCase(5, 3, 0, 0, &cases);
  AddSumCase(5, 3, 0, 2, &cases);
  AddSumCase(5, 0, 4, 3, &cases);
  AddSumCase(7, 33, 50, 8, &cases);
  AddSumCase(40, 257, 300, 150, &cases);
  return cases;
}

}  // namespace comera::kernels
