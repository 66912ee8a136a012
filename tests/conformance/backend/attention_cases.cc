// Rows for attention and rank-space attention.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "kernels/reference/attention.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Values = std::vector<DoubleMatrix>;

constexpr uint32_t kSite = 9;
constexpr int64_t kFirstRow = 100;

// A batch of sequences of these lengths.
struct Sequences {
  explicit Sequences(std::vector<int64_t> l) : lengths(std::move(l)) {
    offsets = {0};
    for (int64_t length : lengths) {
      tokens += length;
      longest = std::max(longest, length);
      offsets.push_back(static_cast<double>(tokens));
    }
  }
  AttentionShape Shape(int64_t heads, int64_t width) const {
    return {static_cast<int64_t>(lengths.size()), tokens, longest, heads,
            width};
  }
  std::vector<int64_t> lengths;
  std::vector<double> offsets;
  int64_t tokens = 0, longest = 0;
};

// Operands 0 and 1 of every case.
std::vector<Operand> Places(const Sequences& s) {
  return {List("offsets", s.offsets), Indices("row_ids", s.tokens, 3000)};
}
DropoutKey Key(float rate, const DeviceOperands& d) {
  return {rate, kSite, kFirstRow, d.state, d[1].indices().data};
}
reference::DropoutNumbers Numbers(float rate, const Values& v) {
  reference::DropoutNumbers numbers = {rate, kSeed, kStep, kSite, kFirstRow};
  numbers.row_ids.assign(v[1].values.begin(), v[1].values.end());
  return numbers;
}

std::string Name(const char* op, const Sequences& s, const std::string& widths,
                 float rate) {
  return absl::StrCat(op, "_", absl::StrJoin(s.lengths, "_"), "_by_", widths,
                      "_percent", static_cast<int>(rate * 100));
}
std::string Name(const char* op, const Sequences& s,
                 const AttentionShape& shape, float rate) {
  return Name(op, s, absl::StrCat(shape.heads, "x", shape.head_width), rate);
}
std::string Name(const char* op, const Sequences& s,
                 const RankSpaceAttentionShape& shape, float rate) {
  return Name(op, s,
              absl::StrCat(shape.attention.heads, "x", shape.query_rank, "x",
                           shape.key_rank, "x", shape.value_rank, "x",
                           shape.output_rank),
              rate);
}

std::vector<Operand> Join(std::vector<Operand> all,
                          const std::vector<Operand>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Runs f(workspace) with as much as `bytes` says, and sees that it takes no
// more.
template <typename F>
absl::Status WithWorkspace(Backend* backend, int64_t bytes, const F& f) {
  const std::vector<float> canary(64, 1234567.0f);
  const int64_t margin = canary.size() * sizeof(float);
  ASSIGN_OR_RETURN(void* workspace, backend->Allocate(bytes + margin));
  char* end = static_cast<char*>(workspace) + bytes;
  absl::Status status = backend->CopyToDevice(end, canary.data(), margin);
  if (status.ok()) status = f(workspace);
  std::vector<float> after(canary.size());
  status.Update(backend->CopyToHost(after.data(), end, margin));
  backend->Free(workspace);
  if (status.ok() && after != canary) {
    return absl::InternalError("wrote past the workspace");
  }
  return status;
}

OpCase Forward(const Sequences& s, int64_t heads, int64_t width, float rate) {
  const AttentionShape shape = s.Shape(heads, width);
  const int64_t rows = s.tokens, cols = heads * width;
  return {Name("Attention", s, shape, rate),
          Join(Places(s),
               {Within(-2, 2, In("q", rows, cols)),
                Within(-2, 2, In("k", rows, cols)), In("v", rows, cols),
                Packed(Out("log_sum", heads, rows)), Out("out", rows, cols)}),
          [=](Backend* backend, const DeviceOperands& d) -> absl::Status {
            return WithWorkspace(
                backend, backend->AttentionWorkspaceBytes(shape), [&](void* w) {
                  return backend->Attention(shape, Key(rate, d), d[0].indices(),
                                            d[2].matrix, d[3].matrix,
                                            d[4].matrix, d[5].matrix.data,
                                            d[6].matrix, w);
                });
          },
          [=](Values* v) {
            reference::Attention(shape, Numbers(rate, *v), (*v)[0], (*v)[2],
                                 (*v)[3], (*v)[4], &(*v)[5], &(*v)[6]);
          },
          5e-6};
}

// Sums of exponentials near those of small scores.
Operand LogSum(int64_t heads, int64_t tokens) {
  return Packed(Within(1, 4, In("log_sum", heads, tokens)));
}

OpCase Backward(const Sequences& s, int64_t heads, int64_t width, float rate) {
  const AttentionShape shape = s.Shape(heads, width);
  const int64_t rows = s.tokens, cols = heads * width;
  return {
      Name("AttentionBackward", s, shape, rate),
      Join(Places(s), {In("q", rows, cols), In("k", rows, cols),
                       In("v", rows, cols), LogSum(heads, rows),
                       In("grad_out", rows, cols), Out("grad_q", rows, cols),
                       Out("grad_k", rows, cols), Out("grad_v", rows, cols)}),
      [=](Backend* backend, const DeviceOperands& d) -> absl::Status {
        return WithWorkspace(
            backend, backend->AttentionWorkspaceBytes(shape), [&](void* w) {
              return backend->AttentionBackward(
                  shape, Key(rate, d), d[0].indices(), d[2].matrix, d[3].matrix,
                  d[4].matrix, d[5].matrix.data, d[6].matrix, d[7].matrix,
                  d[8].matrix, d[9].matrix, w);
            });
      },
      [=](Values* v) {
        reference::AttentionBackward(shape, Numbers(rate, *v), (*v)[0], (*v)[2],
                                     (*v)[3], (*v)[4], (*v)[5], (*v)[6],
                                     &(*v)[7], &(*v)[8], &(*v)[9]);
      },
      1e-5};
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

std::vector<OpCase> AttentionCases() {
  std::vector<OpCase> cases;
  const Sequences none({}), empty({0, 0}), one({1}), equal({40, 40, 40}),
      mixed({1, 65, 0, 17, 128, 3}), many(std::vector<int64_t>(40, 5)),
      long_one({300});
  const auto ordinary = [&](const Sequences& s, int64_t heads, int64_t width) {
    for (float rate : {0.0f, 0.1f, 0.5f}) {
      cases.push_back(Forward(s, heads, width, rate));
      cases.push_back(Backward(s, heads, width, rate));
    }
  };
  ordinary(none, 2, 3);
  ordinary(empty, 2, 3);
  ordinary(equal, 0, 3);
  ordinary(one, 1, 1);
  ordinary(equal, 4, 8);
  ordinary(mixed, 3, 5);
  ordinary(mixed, 2, 48);
  ordinary(long_one, 1, 4);
  const auto rank_space = [&](const Sequences& s, int64_t heads, int64_t q,
                              int64_t k, int64_t v, int64_t o) {
    const RankSpaceAttentionShape shape = {s.Shape(heads, 64), q, k, v, o};
    for (float rate : {0.0f, 0.1f, 0.5f}) {
      cases.push_back(RankSpaceForward(s, shape, rate));
      cases.push_back(RankSpaceBackward(s, shape, rate));
    }
  };
  rank_space(none, 2, 3, 3, 3, 3);
  rank_space(empty, 2, 3, 3, 3, 3);
  rank_space(equal, 0, 3, 3, 3, 3);
  rank_space(equal, 2, 0, 0, 0, 0);
  rank_space(one, 1, 1, 1, 1, 1);
  rank_space(mixed, 3, 5, 7, 20, 2);
  rank_space(mixed, 12, 30, 30, 30, 30);
  rank_space(many, 2, 6, 4, 15, 16);
  rank_space(long_one, 5, 15, 16, 1, 33);
  // Wide, so that a device's fast memory holds only a part of the keys.
  const Sequences pair({70, 33}), longer({130, 5});
  cases.push_back(Forward(pair, 1, 100, 0.1f));
  cases.push_back(Backward(pair, 1, 100, 0.1f));
  for (const RankSpaceAttentionShape& shape :
       {RankSpaceAttentionShape{longer.Shape(2, 64), 40, 63, 20, 64},
        RankSpaceAttentionShape{pair.Shape(1, 64), 90, 100, 127, 100}}) {
    const Sequences& s = shape.attention.heads == 2 ? longer : pair;
    cases.push_back(RankSpaceForward(s, shape, 0.1f));
    cases.push_back(RankSpaceBackward(s, shape, 0.1f));
  }
  return cases;
}

}  // namespace comera::kernels
