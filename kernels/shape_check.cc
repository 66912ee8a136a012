// Checks shapes, strides and memory of operands.
#include "kernels/shape_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {
namespace {

template <typename... Parts>
absl::Status Bad(const char* op, const char* name, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(op, ": ", name, parts...));
}

}  // namespace

absl::Status CheckMatrix(const char* op, const char* name, ConstMatrix m) {
  if (m.rows < 0 || m.cols < 0) {
    return Bad(op, name, " has shape ", m.rows, "x", m.cols);
  }
  if (m.rows > 1 && m.stride < m.cols) {
    return Bad(op, name, " has stride ", m.stride, " for ", m.cols, " columns");
  }
  if (m.rows > 0 && m.cols > 0 && m.data == nullptr) {
    return Bad(op, name, " is null");
  }
  return absl::OkStatus();
}

absl::Status CheckMatrix(const char* op, const char* name, ConstMatrix m,
                         int64_t rows, int64_t cols) {
  if (m.rows != rows || m.cols != cols) {
    return Bad(op, name, " has shape ", m.rows, "x", m.cols, ", expected ",
               rows, "x", cols);
  }
  return CheckMatrix(op, name, m);
}

absl::Status CheckVector(const char* op, const char* name, ConstVector v,
                         int64_t size) {
  if (v.size != size) {
    return Bad(op, name, " has size ", v.size, ", expected ", size);
  }
  return CheckMemory(op, name, v.data, v.size);
}

absl::Status CheckMemory(const char* op, const char* name, const void* data,
                         int64_t size) {
  if (size < 0) return Bad(op, name, " has size ", size);
  if (size > 0 && data == nullptr) return Bad(op, name, " is null");
  return absl::OkStatus();
}

absl::Status CheckDropout(const char* op, const DropoutKey& key) {
  if (!(key.rate >= 0 && key.rate < 1)) {
    return Bad(op, "dropout rate", " is ", key.rate, ", not in [0, 1)");
  }
  if (key.rate > 0 && key.state == nullptr) {
    return Bad(op, "dropout state", " is null");
  }
  return absl::OkStatus();
}

absl::Status CheckExpand(const char* op, ConstMatrix t, ConstMatrix b) {
  RETURN_IF_ERROR(CheckMatrix(op, "t", t));
  if (t.cols == 0) return Bad(op, "t", " has no column of ones");
  RETURN_IF_ERROR(CheckMatrix(op, "b", b));
  return CheckMatrix(op, "b", b, t.cols, b.cols);
}

absl::Status CheckRankSpaceFfn(const char* op, ConstMatrix t1, ConstMatrix b1,
                               ConstMatrix a2) {
  RETURN_IF_ERROR(CheckExpand(op, t1, b1));
  RETURN_IF_ERROR(CheckMatrix(op, "a2", a2));
  return CheckMatrix(op, "a2", a2, b1.cols, a2.cols);
}

absl::Status CheckAttention(const char* op, const AttentionShape& s,
                            ConstIndices offsets) {
  if (s.sequences < 0 || s.tokens < 0 || s.max_length < 0 || s.heads < 0 ||
      s.head_width < 0) {
    return Bad(op, "shape", " is ", s.sequences, " sequences of ", s.max_length,
               ", ", s.tokens, " tokens, ", s.heads, "x", s.head_width);
  }
  if (s.kv_heads < 0 || s.kv_heads > s.heads ||
      (s.kv_heads > 0 && s.heads % s.kv_heads != 0)) {
    return Bad(op, "kv_heads", " is ", s.kv_heads, ", of which ", s.heads,
               " heads are no multiple");
  }
  if (offsets.size != s.sequences + 1) {
    return Bad(op, "offsets", " has size ", offsets.size, " for ", s.sequences,
               " sequences");
  }
  return CheckMemory(op, "offsets", offsets.data, offsets.size);
}

absl::Status CheckCachedHeads(const char* op, const CachedAttentionShape& s) {
  constexpr int64_t kMost = int64_t{1} << 24;
  for (const int64_t size :
       {s.heads, s.key_heads, s.key_width, s.value_heads, s.value_width}) {
    if (size < 0 || size > kMost) {
      return Bad(op, "shape", " is ", s.heads, " heads, ", s.key_heads, "x",
                 s.key_width, " of keys, ", s.value_heads, "x", s.value_width,
                 " of values");
    }
  }
  const std::pair<const char*, int64_t> groups[] = {
      {"key_heads", s.key_heads}, {"value_heads", s.value_heads}};
  for (const auto& [name, heads] : groups) {
    if (heads == 0 ? s.heads != 0 : s.heads % heads != 0) {
      return Bad(op, name, " is ", heads, ", of which ", s.heads,
                 " heads are no multiple");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEncoderAttention(const char* op, const AttentionShape& s) {
  if (s.causal) return Bad(op, "causal", " attention has no rank-space form");
  if (s.key_heads() != s.heads) {
    return Bad(op, "kv_heads", " is ", s.kv_heads, " for ", s.heads,
               " heads, which have no rank-space form");
  }
  return absl::OkStatus();
}

absl::Status CheckTtm(const char* op, const TtmTables& t) {
  if (t.left_outer < 0 || t.left_rows < 0 || t.left_inner < 0 ||
      t.right_rows < 0 || t.right_cols < 0 || t.rank < 0) {
    return Bad(op, "tables", " are ", t.left_outer, "x", t.left_rows, "x",
               t.left_inner, "x", t.rank, " and ", t.rank, "x", t.right_rows,
               "x", t.right_cols);
  }
  return absl::OkStatus();
}

absl::Status CheckOrthogonalStep(const OrthogonalRule& rule,
                                 absl::Span<const OrthogonalSegment> segments,
                                 int64_t size) {
  constexpr char kOp[] = "OrthogonalStep";
  if ((rule.state == nullptr) != (rule.squares == nullptr)) {
    return absl::InvalidArgumentError("OrthogonalStep: state without squares");
  }
  for (const OrthogonalSegment& s : segments) {
    if (s.rows < 1 || s.cols < 1 || s.rows > kMostOrthogonalElements / s.cols) {
      return Bad(kOp, "segment", " of ", s.rows, " x ", s.cols);
    }
    if (s.offset < 0 || s.offset > size - s.rows * s.cols) {
      return Bad(kOp, "segment", " [", s.offset, ", +", s.rows * s.cols,
                 ") lies outside ", size, " parameters");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBonds(const char* op, ConstVector parameters,
                        absl::Span<const BondSpan> bonds) {
  RETURN_IF_ERROR(
      CheckMemory(op, "parameters", parameters.data, parameters.size));
  for (const BondSpan& bond : bonds) {
    if (bond.offset < 0 || bond.size < 0 ||
        bond.offset > parameters.size - bond.size) {
      return Bad(op, "bond", " [", bond.offset, ", +", bond.size,
                 ") lies outside ", parameters.size, " parameters");
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
