// Rows for rank-space attention.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/reference/attention.h"
#include "tests/conformance/backend/attention_batches.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Values = std::vector<DoubleMatrix>;

std::string Name(const char* op, const Sequences& s,
                 const RankSpaceAttentionShape& shape, float rate) {
  return Name(op, s,
              absl::StrCat(shape.attention.heads, "x", shape.query_rank, "x",
                           shape.key_rank, "x", shape.value_rank, "x",
                           shape.output_rank),
              rate);
}

// Operands 2 to 6 of the rank-space cases.
std::vector<Operand> RankSpaceOperands(const RankSpaceAttentionShape& s) {
  const int64_t rows = s.attention.tokens, heads = s.attention.heads;
  return {In("q", rows, s.query_rank + 1), In("k", rows, s.key_rank + 1),
          In("v", rows, s.value_rank + 1),
          In("c", heads * (s.query_rank + 1), s.key_rank + 1),
          In("e", heads * (s.value_rank + 1), s.output_rank)};
}
reference::RankSpaceInputs RankSpaceInputs(const Values& v) {
  return {v[2], v[3], v[4], v[5], v[6]};
}

OpCase RankSpaceForward(const Sequences& s,
                        const RankSpaceAttentionShape& shape, float rate) {
  const int64_t heads = shape.attention.heads;
  return {Name("RankSpaceAttention", s, shape, rate),
          Join(Join(Places(s), RankSpaceOperands(shape)),
               {Packed(Out("log_sum", heads, s.tokens)),
                Out("out", s.tokens, shape.output_rank)}),
          [=](Backend* backend, const DeviceOperands& d) -> absl::Status {
            return WithWorkspace(
                backend, backend->RankSpaceAttentionWorkspaceBytes(shape),
                [&](void* w) {
                  return backend->RankSpaceAttention(
                      shape, Key(rate, d), d[0].indices(), d[2].matrix,
                      d[3].matrix, d[4].matrix, d[5].matrix, d[6].matrix,
                      d[7].matrix.data, d[8].matrix, w);
                });
          },
          [=](Values* v) {
            reference::RankSpaceAttention(shape, Numbers(rate, *v), (*v)[0],
                                          RankSpaceInputs(*v), &(*v)[7],
                                          &(*v)[8]);
          },
          5e-6};
}

OpCase RankSpaceBackward(const Sequences& s,
                         const RankSpaceAttentionShape& shape, float rate) {
  const int64_t rows = s.tokens, heads = shape.attention.heads;
  return {
      Name("RankSpaceAttentionBackward", s, shape, rate),
      Join(Join(Places(s), RankSpaceOperands(shape)),
           {LogSum(heads, rows), In("grad_out", rows, shape.output_rank),
            Out("grad_q", rows, shape.query_rank),
            Out("grad_k", rows, shape.key_rank),
            Out("grad_v", rows, shape.value_rank),
            Out("grad_c", heads * (shape.query_rank + 1), shape.key_rank + 1),
            Out("grad_e", heads * (shape.value_rank + 1), shape.output_rank)}),
      [=](Backend* backend, const DeviceOperands& d) -> absl::Status {
        return WithWorkspace(
            backend, backend->RankSpaceAttentionWorkspaceBytes(shape),
            [&](void* w) {
              return backend->RankSpaceAttentionBackward(
                  shape, Key(rate, d), d[0].indices(), d[2].matrix, d[3].matrix,
                  d[4].matrix, d[5].matrix, d[6].matrix, d[7].matrix.data,
                  d[8].matrix, d[9].matrix, d[10].matrix, d[11].matrix,
                  d[12].matrix, d[13].matrix, w);
            });
      },
      [=](Values* v) {
        reference::RankSpaceGradients g;
        reference::RankSpaceAttentionBackward(shape, Numbers(rate, *v), (*v)[0],
                                              RankSpaceInputs(*v), (*v)[7],
                                              (*v)[8], &g);
        (*v)[9] = g.q;
        (*v)[10] = g.k;
        (*v)[11] = g.v;
        (*v)[12] = g.c;
        (*v)[13] = g.e;
      },
      // Scores of wide ranks are large: what tensor cores cut off a score is
      // multiplied by them.
      std::max(shape.query_rank, shape.key_rank) > 64 ? 5e-5 : 1e-5};
}

}  // namespace

std::vector<OpCase> RankSpaceAttentionCases() {
  std::vector<OpCase> cases;
  const Sequences none({}), empty({0, 0}), one({1}), equal({40, 40, 40}),
      uneven({1, 65, 0, 17, 64, 3}), larger({1, 65, 0, 17, 128, 3}),
      many(std::vector<int64_t>(40, 5));
  const auto add = [&](const Sequences& s, const RankSpaceAttentionShape& shape,
                       const std::vector<float>& rates) {
    for (float rate : rates) {
      cases.push_back(RankSpaceForward(s, shape, rate));
      cases.push_back(RankSpaceBackward(s, shape, rate));
    }
  };
  const std::vector<float> rates = {0, 0.1f, 0.5f};
  add(none, {none.Shape(2, 64), 3, 3, 3, 3}, rates);
  add(empty, {empty.Shape(2, 64), 3, 3, 3, 3}, rates);
  add(equal, {equal.Shape(0, 64), 3, 3, 3, 3}, rates);
  add(equal, {equal.Shape(2, 64), 0, 0, 0, 0}, rates);
  add(one, {one.Shape(1, 64), 1, 1, 1, 1}, rates);
  add(uneven, {uneven.Shape(3, 64), 5, 7, 20, 2}, {0});
  add(uneven, {uneven.Shape(2, 64), 30, 30, 30, 30}, {0, 0.1f});
  add(many, {many.Shape(2, 64), 6, 4, 15, 16}, {0, 0.5f});

  const auto add_large = [&](const Sequences& s,
                             const RankSpaceAttentionShape& shape) {
    cases.push_back(Sparing(RankSpaceForward(s, shape, 0.1f)));
    cases.push_back(Sparing(RankSpaceBackward(s, shape, 0.1f)));
  };
  add_large(larger, {larger.Shape(3, 64), 5, 7, 20, 2});
  // So many sequences that several heads go to one block of threads, and heads
  // that neither blocks nor warps share evenly.
  add_large(many, {many.Shape(9, 64), 6, 4, 15, 16});
  // More keys than lie in a device's fast memory, for several heads of a warp,
  const Sequences above({165});
  cases.push_back(Sparing(
      RankSpaceForward(above, {above.Shape(5, 64), 15, 16, 1, 33}, 0.1f)));
  // and more than whose dropout is drawn once.
  const Sequences long_one({261});
  add_large(long_one, {long_one.Shape(2, 64), 15, 12, 1, 16});
  // Wide, so that a device's fast memory holds only a part of the keys.
  const Sequences pair({70, 33}), longer({130, 5});
  add_large(longer, {longer.Shape(2, 64), 40, 63, 20, 64});
  add_large(pair, {pair.Shape(1, 64), 90, 100, 127, 100});
  // So wide, and with heads for all warps, that some devices take fewer queries
  // at a time.
  add_large(pair, {pair.Shape(5, 64), 90, 100, 127, 100});
  return cases;
}

}  // namespace comera::kernels
