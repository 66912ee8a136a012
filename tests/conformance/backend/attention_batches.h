// The batches of sequences that rows for attention share, and their operands.
#ifndef COMERA_TESTS_CONFORMANCE_BACKEND_ATTENTION_BATCHES_H_
#define COMERA_TESTS_CONFORMANCE_BACKEND_ATTENTION_BATCHES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "kernels/backend.h"
#include "kernels/reference/matrix.h"
#include "kernels/reference/pointwise.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {

inline constexpr uint32_t kAttentionSite = 9;
inline constexpr int64_t kAttentionFirstRow = 100;

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
inline std::vector<Operand> Places(const Sequences& s) {
  return {List("offsets", s.offsets), Indices("row_ids", s.tokens, 3000)};
}
inline DropoutKey Key(float rate, const DeviceOperands& d) {
  return {rate, kAttentionSite, kAttentionFirstRow, d.state,
          d[1].indices().data};
}
inline reference::DropoutNumbers Numbers(
    float rate, const std::vector<reference::DoubleMatrix>& v) {
  reference::DropoutNumbers numbers = {rate, kSeed, kStep, kAttentionSite,
                                       kAttentionFirstRow};
  numbers.row_ids.assign(v[1].values.begin(), v[1].values.end());
  return numbers;
}

inline std::string Name(const char* op, const Sequences& s,
                        const std::string& widths, float rate) {
  return absl::StrCat(op, "_", absl::StrJoin(s.lengths, "_"), "_by_", widths,
                      "_percent", static_cast<int>(rate * 100));
}

inline std::vector<Operand> Join(std::vector<Operand> all,
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

// Sums of exponentials near those of small scores.
inline Operand LogSum(int64_t heads, int64_t tokens) {
  return Packed(Within(1, 4, In("log_sum", heads, tokens)));
}

}  // namespace comera::kernels

#endif  // COMERA_TESTS_CONFORMANCE_BACKEND_ATTENTION_BATCHES_H_
