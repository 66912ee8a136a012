// Folds the projections around attention into each other.
#include "worker/trainer/generate/attention_layers.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

struct Heads {
  int64_t count, width, per_group;  // per_group: query heads to one of the keys
  int64_t keys_width() const { return count / per_group * width; }
};

// Columns [first, first + count).
HostMatrix Columns(const HostMatrix& m, int64_t first, int64_t count) {
  HostMatrix part(m.rows, count);
  for (int64_t i = 0; i < m.rows; ++i) {
    std::copy_n(m.values.begin() + i * m.cols + first, count,
                part.values.begin() + i * count);
  }
  return part;
}

HostMatrix Transposed(const HostMatrix& m) {
  HostMatrix turned(m.cols, m.rows);
  for (int64_t i = 0; i < m.rows; ++i) {
    for (int64_t j = 0; j < m.cols; ++j) {
      turned.values[j * m.rows + i] = m.values[i * m.cols + j];
    }
  }
  return turned;
}

// The columns of a head's keys or values.
HostMatrix HeadOf(const HostMatrix& b, const Heads& heads, int64_t head) {
  return Columns(b, head / heads.per_group * heads.width, heads.width);
}

// A layer whose output is T = f(X A) alone.
LayerFactors FirstFactor(const LayerFactors& factors) {
  LayerFactors first;
  first.a = factors.a;
  first.silu = factors.silu;
  return first;
}

HostMatrix Row(const std::vector<float>& values) {
  HostMatrix row(1, static_cast<int64_t>(values.size()));
  row.values = values;
  return row;
}

// The products Q_h B_h^T of queries (rows, heads * width) side by side.
HostMatrix QueriesInRankSpace(const HostMatrix& queries, const HostMatrix& b,
                              const Heads& heads) {
  const int64_t rank = b.rows;
  HostMatrix result(queries.rows, heads.count * rank);
  for (int64_t h = 0; h < heads.count; ++h) {
    const HostMatrix own = Columns(queries, h * heads.width, heads.width);
    const HostMatrix turned = Transposed(HeadOf(b, heads, h));
    HostMatrix product(queries.rows, rank);
    AddProduct(own.values.data(), turned.values.data(), queries.rows,
               heads.width, rank, 1, product.values.data());
    for (int64_t i = 0; i < queries.rows; ++i) {
      std::copy_n(product.values.begin() + i * rank, rank,
                  result.values.begin() + i * result.cols + h * rank);
    }
  }
  return result;
}

// The blocks B_h W_h one below the other, W_h being the head's rows of `w`.
HostMatrix OutputsFromRankSpace(const HostMatrix& b, const HostMatrix& w,
                                const Heads& heads) {
  const int64_t rank = b.rows;
  HostMatrix result(heads.count * rank, w.cols);
  for (int64_t h = 0; h < heads.count; ++h) {
    const HostMatrix own = HeadOf(b, heads, h);
    AddProduct(own.values.data(), w.values.data() + h * heads.width * w.cols,
               rank, heads.width, w.cols, 1,
               result.values.data() + h * rank * w.cols);
  }
  return result;
}

class AttentionFolder {
 public:
  AttentionFolder(const ModelParts& parts, int64_t layer)
      : parts_(parts),
        key_(absl::StrCat("layers.", layer, ".")),
        heads_{parts.config().heads, parts.config().head_width(),
               parts.config().hidden / parts.config().key_width()} {}

  absl::StatusOr<AttentionLayers> Fold() {
    const ModelConfig& config = parts_.config();
    kernels::CachedAttentionShape shape;
    shape.heads = heads_.count;
    shape.key_heads = shape.value_heads = heads_.count / heads_.per_group;
    shape.key_width = shape.value_width = heads_.width;
    shape.scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(heads_.width)));
    const bool rotated = config.llama();
    const bool rank_keys = !rotated && KeysInRankSpace();
    const bool rank_values = ValuesInRankSpace();
    if (rank_keys) {
      shape.key_heads = 1;
      shape.key_width = parts_.RankOf(key_ + "key");
    }
    if (rank_values) {
      shape.value_heads = 1;
      shape.value_width = parts_.RankOf(key_ + "value");
    }
    ASSIGN_OR_RETURN(FoldedLinear query, Query(rank_keys));
    ASSIGN_OR_RETURN(FoldedLinear key, KeyOrValue("key", rank_keys));
    ASSIGN_OR_RETURN(FoldedLinear value, KeyOrValue("value", rank_values));
    ASSIGN_OR_RETURN(FoldedLinear output, Output(rank_values));
    return AttentionLayers{std::move(query),  std::move(key), std::move(value),
                           std::move(output), shape,          rotated};
  }

 private:
  // Columns of a layer's first factor: what its second matrix has as inputs.
  int64_t Inner(const std::string& key, int64_t otherwise) const {
    if (parts_.IsPruned(key)) return 0;
    const int64_t rank = parts_.RankOf(key);
    return rank > 0 ? rank : otherwise;
  }

  bool KeysInRankSpace() const {
    const int64_t rank = parts_.RankOf(key_ + "key");
    const int64_t hidden = parts_.config().hidden;
    const int64_t inner = Inner(key_ + "query", hidden);
    return rank > 0 && rank < heads_.keys_width() &&
           heads_.count * rank * inner <=
               hidden * inner + rank * heads_.keys_width();
  }

  bool ValuesInRankSpace() const {
    const int64_t rank = parts_.RankOf(key_ + "value");
    const int64_t hidden = parts_.config().hidden;
    const int64_t inner = Inner(key_ + "output", hidden);
    if (rank == 0 || rank >= heads_.keys_width() ||
        heads_.count * rank * inner >
            hidden * inner + rank * heads_.keys_width()) {
      return false;
    }
    // A bias cannot pass an activation.
    const Factorisation& output =
        parts_.config().layers_by_name.at(key_ + "output");
    return !output.silu_between_factors() ||
           parts_.BiasOf(key_ + "value").data == nullptr;
  }

  absl::StatusOr<FoldedLinear> Query(bool rank_keys) const {
    if (!rank_keys) return parts_.Linear(key_ + "query");
    LayerFactors query = parts_.Factors(key_ + "query");
    const LayerFactors key = parts_.Factors(key_ + "key");
    HostMatrix& last = query.two ? query.b : query.a;
    last = QueriesInRankSpace(last, key.b, heads_);
    std::vector<float> bias = parts_.HostBiasOf(key_ + "query");
    if (!bias.empty()) {
      bias = QueriesInRankSpace(Row(bias), key.b, heads_).values;
    }
    return FoldedLinear::Upload(parts_.backend(), std::move(query), bias);
  }

  absl::StatusOr<FoldedLinear> KeyOrValue(const std::string& name,
                                          bool rank_space) const {
    if (!rank_space) return parts_.Linear(key_ + name);
    return FoldedLinear::Upload(parts_.backend(),
                                FirstFactor(parts_.Factors(key_ + name)), {});
  }

  absl::StatusOr<FoldedLinear> Output(bool rank_values) const {
    if (!rank_values) return parts_.Linear(key_ + "output");
    LayerFactors output = parts_.Factors(key_ + "output");
    std::vector<float> bias = OutputBias(output);
    output.a = OutputsFromRankSpace(parts_.Factors(key_ + "value").b, output.a,
                                    heads_);
    return FoldedLinear::Upload(parts_.backend(), std::move(output), bias);
  }

  // b_v W_o + b_o.
  std::vector<float> OutputBias(const LayerFactors& output) const {
    std::vector<float> bias = parts_.HostBiasOf(key_ + "output");
    const std::vector<float> values = parts_.HostBiasOf(key_ + "value");
    if (values.empty()) return bias;
    bias.resize(parts_.config().hidden);
    HostMatrix all(1, heads_.count * heads_.width);
    for (int64_t h = 0; h < heads_.count; ++h) {
      std::copy_n(values.begin() + h / heads_.per_group * heads_.width,
                  heads_.width, all.values.begin() + h * heads_.width);
    }
    HostMatrix inner(1, output.a.cols);
    AddProduct(all.values.data(), output.a.values.data(), 1, output.a.rows,
               output.a.cols, 1, inner.values.data());
    if (!output.two) {
      for (size_t i = 0; i < bias.size(); ++i) bias[i] += inner.values[i];
      return bias;
    }
    AddProduct(inner.values.data(), output.b.values.data(), 1, output.b.rows,
               output.b.cols, 1, bias.data());
    return bias;
  }

  const ModelParts& parts_;
  const std::string key_;
  const Heads heads_;
};

}  // namespace

absl::StatusOr<AttentionLayers> FoldAttention(const ModelParts& parts,
                                              int64_t layer) {
  return AttentionFolder(parts, layer).Fold();
}

}  // namespace comera::trainer
