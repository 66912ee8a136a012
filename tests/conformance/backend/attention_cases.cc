#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/reference/attention.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Values = std::vector<DoubleMatrix>;

constexpr uint32_t kSite = 9;
constexpr int64_t kFirstRow = 100;

DropoutKey Key(float rate, const DeviceOperands& d) {
  return {rate, kSite, kFirstRow, d.state};
}
reference::DropoutNumbers Numbers(float rate) {
  return {rate, kSeed, kStep, kSite, kFirstRow};
}

std::string Name(const char* op, const AttentionShape& s, float rate) {
  return absl::StrCat(op, "_", s.batch, "x", s.length, "x", s.heads, "x",
                      s.head_width, "_percent", static_cast<int>(rate * 100));
}

// A mask of zeros and ones from values in [0, 1); the first key of every
// sequence stays visible, since of rows that see nothing fp32 knows less than
// double.
void RoundMask(const AttentionShape& s, DoubleMatrix* mask) {
  for (int64_t i = 0; i < mask->size(); ++i) {
    (*mask)[i] = i % s.length == 0 || (*mask)[i] >= 0.3 ? 1 : 0;
  }
}

OpCase Forward(const AttentionShape& s, float rate) {
  const int64_t rows = s.batch * s.length, cols = s.heads * s.head_width;
  return {
      Name("Attention", s, rate),
      {Within(-2, 2, In("q", rows, cols)), Within(-2, 2, In("k", rows, cols)),
       In("v", rows, cols), Packed(Within(0, 1, Updated("mask", 1, rows))),
       Packed(Out("probabilities", s.batch * s.heads, s.length * s.length)),
       Out("out", rows, cols)},
      [=](Backend* backend, const DeviceOperands& d) -> absl::Status {
        DoubleMatrix mask(1, rows);
        std::vector<float> host(rows);
        RETURN_IF_ERROR(backend->CopyToHost(host.data(), d[3].matrix.data,
                                            rows * sizeof(float)));
        std::copy(host.begin(), host.end(), mask.values.begin());
        RoundMask(s, &mask);
        std::copy(mask.values.begin(), mask.values.end(), host.begin());
        RETURN_IF_ERROR(backend->CopyToDevice(d[3].matrix.data, host.data(),
                                              rows * sizeof(float)));
        return backend->Attention(s, Key(rate, d), d[0].matrix, d[1].matrix,
                                  d[2].matrix, d[3].vector(), d[4].matrix.data,
                                  d[5].matrix);
      },
      [=](Values* v) {
        RoundMask(s, &(*v)[3]);
        reference::Attention(s, Numbers(rate), (*v)[0], (*v)[1], (*v)[2],
                             (*v)[3], &(*v)[4], &(*v)[5]);
      },
      5e-6};
}

OpCase Backward(const AttentionShape& s, float rate) {
  const int64_t rows = s.batch * s.length, cols = s.heads * s.head_width;
  return {Name("AttentionBackward", s, rate),
          {In("q", rows, cols), In("k", rows, cols), In("v", rows, cols),
           Packed(Within(
               0, 2.0 / static_cast<double>(s.length + 1),
               In("probabilities", s.batch * s.heads, s.length * s.length))),
           In("grad_out", rows, cols), Out("grad_q", rows, cols),
           Out("grad_k", rows, cols), Out("grad_v", rows, cols)},
          [=](Backend* backend, const DeviceOperands& d) -> absl::Status {
            ASSIGN_OR_RETURN(
                void* workspace,
                backend->Allocate(backend->AttentionWorkspaceBytes(s)));
            const absl::Status status = backend->AttentionBackward(
                s, Key(rate, d), d[0].matrix, d[1].matrix, d[2].matrix,
                d[3].matrix.data, d[4].matrix, d[5].matrix, d[6].matrix,
                d[7].matrix, workspace);
            backend->Free(workspace);
            return status;
          },
          [=](Values* v) {
            reference::AttentionBackward(s, Numbers(rate), (*v)[0], (*v)[1],
                                         (*v)[2], (*v)[3], (*v)[4], &(*v)[5],
                                         &(*v)[6], &(*v)[7]);
          },
          1e-5};
}

}  // namespace

std::vector<OpCase> AttentionCases() {
  std::vector<OpCase> cases;
  const AttentionShape shapes[] = {{0, 4, 2, 3},  {2, 4, 0, 3},   {1, 1, 1, 1},
                                   {2, 7, 3, 5},  {1, 65, 1, 16}, {3, 40, 4, 8},
                                   {1, 300, 1, 4}};
  for (const AttentionShape& shape : shapes) {
    for (float rate : {0.0f, 0.1f, 0.5f}) {
      cases.push_back(Forward(shape, rate));
      cases.push_back(Backward(shape, rate));
    }
  }
  return cases;
}

}  // namespace comera::kernels
