// Rows for attention: of encoders, causal, and with fewer heads of keys.
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/reference/attention.h"
#include "tests/conformance/backend/attention_batches.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Values = std::vector<DoubleMatrix>;

std::string Name(const char* op, const Sequences& s,
                 const AttentionShape& shape, float rate) {
  std::string widths = absl::StrCat(shape.heads, "x", shape.head_width);
  if (shape.kv_heads > 0) absl::StrAppend(&widths, "_keys", shape.kv_heads);
  if (shape.causal) absl::StrAppend(&widths, "_causal");
  return Name(op, s, widths, rate);
}

OpCase Forward(const Sequences& s, const AttentionShape& shape, float rate) {
  const int64_t rows = s.tokens, cols = shape.heads * shape.head_width;
  const int64_t key_cols = shape.key_heads() * shape.head_width;
  return {
      Name("Attention", s, shape, rate),
      Join(Places(s),
           {Within(-2, 2, In("q", rows, cols)),
            Within(-2, 2, In("k", rows, key_cols)), In("v", rows, key_cols),
            Packed(Out("log_sum", shape.heads, rows)), Out("out", rows, cols)}),
      [=](Backend* backend, const DeviceOperands& d) -> absl::Status {
        return WithWorkspace(
            backend, backend->AttentionWorkspaceBytes(shape), [&](void* w) {
              return backend->Attention(shape, Key(rate, d), d[0].indices(),
                                        d[2].matrix, d[3].matrix, d[4].matrix,
                                        d[5].matrix.data, d[6].matrix, w);
            });
      },
      [=](Values* v) {
        reference::Attention(shape, Numbers(rate, *v), (*v)[0], (*v)[2],
                             (*v)[3], (*v)[4], &(*v)[5], &(*v)[6]);
      },
      5e-6};
}

OpCase Backward(const Sequences& s, const AttentionShape& shape, float rate) {
  const int64_t rows = s.tokens, cols = shape.heads * shape.head_width;
  const int64_t key_cols = shape.key_heads() * shape.head_width;
  OpCase backward = {
      Name("AttentionBackward", s, shape, rate),
      Join(Places(s),
           {In("q", rows, cols), In("k", rows, key_cols),
            In("v", rows, key_cols), Packed(Out("log_sum", shape.heads, rows)),
            Out("out", rows, cols), In("grad_out", rows, cols),
            Out("grad_q", rows, cols), Out("grad_k", rows, key_cols),
            Out("grad_v", rows, key_cols)}),
      [=](Backend* backend, const DeviceOperands& d) -> absl::Status {
        return WithWorkspace(
            backend, backend->AttentionWorkspaceBytes(shape),
            [&](void* w) -> absl::Status {
              float* const log_sum = d[5].matrix.data;
              RETURN_IF_ERROR(backend->Attention(
                  shape, Key(rate, d), d[0].indices(), d[2].matrix, d[3].matrix,
                  d[4].matrix, log_sum, d[6].matrix, w));
              return backend->AttentionBackward(
                  shape, Key(rate, d), d[0].indices(), d[2].matrix, d[3].matrix,
                  d[4].matrix, log_sum, d[6].matrix, d[7].matrix, d[8].matrix,
                  d[9].matrix, d[10].matrix, w);
            });
      },
      [=](Values* v) {
        reference::Attention(shape, Numbers(rate, *v), (*v)[0], (*v)[2],
                             (*v)[3], (*v)[4], &(*v)[5], &(*v)[6]);
        reference::AttentionBackward(shape, Numbers(rate, *v), (*v)[0], (*v)[2],
                                     (*v)[3], (*v)[4], (*v)[5], (*v)[7],
                                     &(*v)[8], &(*v)[9], &(*v)[10]);
      },
      1e-5};
  // With one key the gradient of a score is 0, computed as the difference of
  // two sums of the same products.
  if (shape.max_length == 1) backward.least = 0.1;
  return backward;
}

// Both passes at several rates of dropout; `sparing` as in OpCase.
void AddPasses(const Sequences& s, const AttentionShape& shape,
               const std::vector<float>& rates, std::vector<OpCase>* cases,
               bool sparing = false) {
  for (float rate : rates) {
    for (OpCase op : {Forward(s, shape, rate), Backward(s, shape, rate)}) {
      op.sparing = sparing;
      cases->push_back(std::move(op));
    }
  }
}

AttentionShape Causal(AttentionShape shape) {
  shape.causal = true;
  return shape;
}
AttentionShape WithKeyHeads(int64_t kv_heads, AttentionShape shape) {
  shape.kv_heads = kv_heads;
  return shape;
}

}  // namespace

std::vector<OpCase> AttentionCases() {
  std::vector<OpCase> cases;
  // Tiles of 64 and what is beside them; `larger` has two whole ones. Of 261
  // keys dropout is not drawn once for all, and not all lie in a device's fast
  // memory.
  const Sequences none({}), empty({0, 0}), one({1}), equal({40, 40, 40}),
      uneven({1, 65, 0, 17, 64, 3}), larger({1, 65, 0, 17, 128, 3}),
      long_one({261});
  // Wide heads, so that a device's fast memory holds only a part of the keys.
  const Sequences pair({70, 33});
  const std::vector<float> rates = {0, 0.1f, 0.5f};
  AddPasses(none, none.Shape(2, 3), rates, &cases);
  AddPasses(empty, empty.Shape(2, 3), rates, &cases);
  AddPasses(equal, equal.Shape(0, 3), rates, &cases);
  AddPasses(one, one.Shape(1, 1), rates, &cases);
  AddPasses(equal, equal.Shape(4, 8), rates, &cases);
  AddPasses(uneven, uneven.Shape(3, 5), rates, &cases);
  AddPasses(uneven, uneven.Shape(2, 48), {0}, &cases, true);
  AddPasses(larger, larger.Shape(2, 48), {0.1f}, &cases, true);
  AddPasses(long_one, long_one.Shape(1, 4), {0.1f}, &cases, true);
  AddPasses(pair, pair.Shape(1, 100), {0.1f}, &cases, true);
  // Whole rows of a width that kernels have.
  AddPasses(larger, larger.Shape(2, 64), {0.1f}, &cases, true);
  AddPasses(uneven, uneven.Shape(2, 128), {0.1f}, &cases, true);

  const std::vector<float> few = {0, 0.1f};
  AddPasses(none, Causal(none.Shape(2, 3)), few, &cases);
  AddPasses(empty, Causal(empty.Shape(2, 3)), few, &cases);
  AddPasses(equal, Causal(equal.Shape(0, 3)), few, &cases);
  AddPasses(one, Causal(one.Shape(1, 1)), few, &cases);
  AddPasses(equal, Causal(equal.Shape(4, 8)), few, &cases);
  AddPasses(uneven, Causal(uneven.Shape(3, 5)), {0}, &cases);
  AddPasses(larger, Causal(larger.Shape(3, 5)), {0.1f}, &cases, true);
  AddPasses(long_one, Causal(long_one.Shape(1, 24)), {0.1f}, &cases, true);
  AddPasses(pair, Causal(pair.Shape(1, 100)), {0.1f}, &cases, true);
  AddPasses(larger, Causal(larger.Shape(2, 64)), {0.1f}, &cases, true);

  AddPasses(none, WithKeyHeads(1, none.Shape(2, 3)), few, &cases);
  AddPasses(empty, WithKeyHeads(2, empty.Shape(4, 3)), few, &cases);
  AddPasses(one, WithKeyHeads(1, one.Shape(3, 1)), few, &cases);
  AddPasses(equal, WithKeyHeads(4, equal.Shape(4, 8)), {0.1f}, &cases);
  AddPasses(uneven, WithKeyHeads(2, uneven.Shape(6, 5)), few, &cases);

  AddPasses(one, Causal(WithKeyHeads(1, one.Shape(2, 2))), few, &cases);
  AddPasses(uneven, Causal(WithKeyHeads(1, uneven.Shape(3, 7))), few, &cases);
  AddPasses(uneven, Causal(WithKeyHeads(2, uneven.Shape(4, 33))), few, &cases);
  AddPasses(long_one, Causal(WithKeyHeads(1, long_one.Shape(2, 4))), {0.1f},
            &cases, true);
  AddPasses(pair, Causal(WithKeyHeads(1, pair.Shape(2, 100))), {0.1f}, &cases,
            true);
  return cases;
}

}  // namespace comera::kernels
