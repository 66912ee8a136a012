// Runs new tokens through a folded decoder, with keys and values kept.
#include "worker/trainer/generate/cached_decoder.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {

using kernels::ConstIndices;
using kernels::ConstMatrix;
using kernels::ConstVector;
using kernels::Matrix;
using kernels::Vector;

namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int kIndexRows = 6;  // ids, positions, kept, first, counts, last

int64_t ChunkOf(const CachedDecoder::Options& options,
                const kernels::Backend& backend) {
  const int64_t chunk = options.chunk > 0 ? options.chunk
                        : backend.in_host_memory()
                            ? CachedDecoder::kHostChunk
                            : CachedDecoder::kDeviceChunk;
  return std::max(chunk, options.max_slots);
}

}  // namespace

CachedDecoder::CachedDecoder(const ModelConfig& config, int64_t chunk,
                             int64_t max_slots, kernels::Backend* backend)
    : config_(config),
      chunk_(chunk),
      max_rows_(chunk + max_slots),
      backend_(backend),
      arena_(backend) {}

absl::StatusOr<std::unique_ptr<CachedDecoder>> CachedDecoder::Create(
    const ModelConfig& config, const float* parameters, const Options& options,
    kernels::Backend* backend) {
  auto decoder = absl::WrapUnique(new CachedDecoder(
      config, ChunkOf(options, *backend), options.max_slots, backend));
  ASSIGN_OR_RETURN(decoder->layers_,
                   FoldDecoder(decoder->config_, parameters, backend));
  std::vector<CacheColumns> columns;
  for (const FoldedBlock& block : decoder->layers_.blocks) {
    const auto& layers = block.attention.layers;
    columns.push_back(
        layers ? CacheColumns{layers->key_columns(), layers->value_columns()}
               : CacheColumns());
  }
  ASSIGN_OR_RETURN(
      decoder->cache_,
      KeyValueCache::Create(columns, config.length, options.max_slots,
                            options.max_cache_bytes, backend));
  decoder->ReserveScratch();
  RETURN_IF_ERROR(decoder->arena_.Commit());
  return decoder;
}

void CachedDecoder::ReserveScratch() {
  int64_t factor = layers_.output->scratch_width();
  int64_t query = 0, key = 0, value = 0, context = 0, ffn = 0;
  const auto widen = [](int64_t* width, int64_t to) {
    *width = std::max(*width, to);
  };
  for (const FoldedBlock& block : layers_.blocks) {
    if (const auto& layers = block.attention.layers) {
      for (const FoldedLinear* linear :
           {&layers->query, &layers->key, &layers->value, &layers->output}) {
        widen(&factor, linear->scratch_width());
      }
      widen(&query, layers->query.outputs());
      widen(&key, layers->key_columns());
      widen(&value, layers->value_columns());
      widen(&context, layers->output.inputs());
    }
    if (const auto& layers = block.ffn.layers) {
      widen(&ffn, layers->up.outputs());
      widen(&factor, layers->up.scratch_width());
      widen(&factor, layers->down.scratch_width());
      if (layers->gate) widen(&factor, layers->gate->scratch_width());
    }
  }
  const auto rows = [&](const char* name, int64_t width) {
    return arena_.Reserve(name, max_rows_ * width * kFloat);
  };
  const int64_t indices = kIndexRows * max_rows_;
  indices_.resize(indices);
  index_ = arena_.Reserve("indices", indices * int64_t{sizeof(int32_t)});
  stream_ = rows("stream", config_.hidden);
  normed_ = rows("normed", config_.hidden);
  normalised_ = rows("normalised", config_.hidden);
  deviation_ = rows("deviation", 1);
  factor_ = rows("factor", factor);
  query_ = rows("query", query);
  key_ = rows("key", key);
  value_ = rows("value", value);
  context_ = rows("context", context);
  gate_ = rows("gate", ffn);
  up_ = rows("up", ffn);
  last_ = arena_.Reserve("last rows", slots() * config_.hidden * kFloat);
  logits_ = arena_.Reserve("logits", slots() * config_.vocabulary * kFloat);
}

absl::Status CachedDecoder::Check(absl::Span<const NewToken> tokens) const {
  if (static_cast<int64_t>(tokens.size()) > max_rows_) {
    return absl::InvalidArgumentError(absl::StrCat(
        tokens.size(), " tokens in a step, more than ", max_rows_));
  }
  int64_t wanted = 0;
  for (const NewToken& token : tokens) {
    wanted += token.logits ? 1 : 0;
    if (token.slot < 0 || token.slot >= slots() || token.position < 0 ||
        token.position >= config_.length || token.id < 0 ||
        token.id >= config_.vocabulary) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", token.id, " at position ", token.position,
                       " of slot ", token.slot, " is outside the limits"));
    }
  }
  if (wanted > slots()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "logits of ", wanted, " tokens in a step, more than ", slots()));
  }
  return absl::OkStatus();
}

absl::StatusOr<CachedDecoder::Rows> CachedDecoder::CopyRows(
    absl::Span<const NewToken> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  int32_t* const host = indices_.data();
  Rows rows;
  rows.count = count;
  for (int64_t i = 0; i < count; ++i) {
    const NewToken& token = tokens[i];
    const int64_t first = token.slot * cache_->length();
    host[i] = token.id;
    host[count + i] = static_cast<int32_t>(token.position);
    host[2 * count + i] = static_cast<int32_t>(first + token.position);
    host[3 * count + i] = static_cast<int32_t>(first);
    host[4 * count + i] = static_cast<int32_t>(token.position + 1);
    rows.most = std::max(rows.most, token.position + 1);
    if (token.logits) {
      host[5 * count + rows.wanted++] = static_cast<int32_t>(i);
    }
  }
  int32_t* const there = arena_.Ints(index_);
  RETURN_IF_ERROR(backend_->CopyToDevice(
      there, host, (5 * count + rows.wanted) * int64_t{sizeof(int32_t)}));
  rows.ids = ConstIndices(there, count);
  rows.positions = ConstIndices(there + count, count);
  rows.kept = ConstIndices(there + 2 * count, count);
  rows.first = ConstIndices(there + 3 * count, count);
  rows.counts = ConstIndices(there + 4 * count, count);
  rows.last = ConstIndices(there + 5 * count, rows.wanted);
  return rows;
}

absl::Status CachedDecoder::Embed(const Rows& rows, Matrix stream) {
  RETURN_IF_ERROR(backend_->GatherRows(layers_.words, rows.ids, stream));
  if (layers_.positions.data == nullptr) return absl::OkStatus();
  const Matrix added = Scratch(normed_, rows.count, config_.hidden);
  RETURN_IF_ERROR(
      backend_->GatherRows(layers_.positions, rows.positions, added));
  const int64_t size = rows.count * config_.hidden;
  return backend_->Axpy(1, {added.data, size}, {stream.data, size});
}

absl::Status CachedDecoder::Norm(const FoldedNorm& norm, ConstMatrix x,
                                 Matrix y) {
  const Matrix normalised = Scratch(normalised_, x.rows, x.cols);
  const Vector deviation(arena_.Floats(deviation_), x.rows);
  const float epsilon = config_.layer_norm_epsilon;
  if (norm.beta.data == nullptr) {
    return backend_->RmsNorm(x, norm.gamma, epsilon, normalised, deviation, y);
  }
  return backend_->ResidualLayerNorm(
      {}, x, ConstMatrix(nullptr, x.rows, x.cols), norm.gamma, norm.beta,
      epsilon, normalised, deviation, y);
}

absl::Status CachedDecoder::Attend(const Rows& rows,
                                   const AttentionLayers& layers, int64_t block,
                                   ConstMatrix x, Matrix stream) {
  float* const factor = arena_.Floats(factor_);
  const Matrix query = Scratch(query_, rows.count, layers.query.outputs());
  const Matrix key = Scratch(key_, rows.count, layers.key_columns());
  const Matrix value = Scratch(value_, rows.count, layers.value_columns());
  const Matrix context = Scratch(context_, rows.count, layers.output.inputs());
  RETURN_IF_ERROR(layers.query.Forward(x, factor, query));
  RETURN_IF_ERROR(layers.key.Forward(x, factor, key));
  RETURN_IF_ERROR(layers.value.Forward(x, factor, value));
  if (layers.rotated) {
    for (const Matrix& turned : {query, key}) {
      RETURN_IF_ERROR(backend_->Rotate(config_.head_width(), config_.rope_theta,
                                       /*inverse=*/false, rows.positions,
                                       turned));
    }
  }
  const Matrix keys = cache_->Keys(block), values = cache_->Values(block);
  RETURN_IF_ERROR(backend_->PutRows(key, rows.kept, keys));
  RETURN_IF_ERROR(backend_->PutRows(value, rows.kept, values));
  RETURN_IF_ERROR(backend_->CachedAttention(layers.shape, rows.first,
                                            rows.counts, rows.most, query, keys,
                                            values, context));
  return layers.output.AddTo(context, factor, stream);
}

absl::Status CachedDecoder::FeedForward(const FoldedFfn& layers, ConstMatrix x,
                                        Matrix stream) {
  float* const factor = arena_.Floats(factor_);
  const Matrix up = Scratch(up_, x.rows, layers.up.outputs());
  RETURN_IF_ERROR(layers.up.Forward(x, factor, up));
  if (layers.gate) {
    const Matrix gate = Scratch(gate_, x.rows, layers.up.outputs());
    RETURN_IF_ERROR(layers.gate->Forward(x, factor, gate));
    RETURN_IF_ERROR(backend_->Gated(layers.activation, gate, up, up));
  } else {
    RETURN_IF_ERROR(backend_->Activate(layers.activation, up, up));
  }
  return layers.down.AddTo(up, factor, stream);
}

absl::Status CachedDecoder::RunHead(const Rows& rows, ConstMatrix stream,
                                    std::vector<float>* logits) {
  logits->resize(rows.wanted * config_.vocabulary);
  if (rows.wanted > 0) {
    const Matrix last = Scratch(last_, rows.wanted, config_.hidden);
    const Matrix normed = Scratch(normed_, rows.wanted, config_.hidden);
    const Matrix result = Scratch(logits_, rows.wanted, config_.vocabulary);
    RETURN_IF_ERROR(backend_->GatherRows(stream, rows.last, last));
    RETURN_IF_ERROR(Norm(layers_.norm, last, normed));
    RETURN_IF_ERROR(
        layers_.output->Forward(normed, arena_.Floats(factor_), result));
    RETURN_IF_ERROR(
        backend_->CopyToHost(logits->data(), result.data,
                             rows.wanted * config_.vocabulary * kFloat));
  }
  return backend_->Synchronize();
}

absl::Status CachedDecoder::Step(absl::Span<const NewToken> tokens,
                                 std::vector<float>* logits) {
  RETURN_IF_ERROR(Check(tokens));
  ASSIGN_OR_RETURN(const Rows rows, CopyRows(tokens));
  const Matrix stream = Scratch(stream_, rows.count, config_.hidden);
  const Matrix normed = Scratch(normed_, rows.count, config_.hidden);
  RETURN_IF_ERROR(Embed(rows, stream));
  for (size_t i = 0; i < layers_.blocks.size(); ++i) {
    const auto& attention = layers_.blocks[i].attention;
    if (attention.layers) {
      RETURN_IF_ERROR(Norm(attention.norm, stream, normed));
      RETURN_IF_ERROR(Attend(rows, *attention.layers, static_cast<int64_t>(i),
                             normed, stream));
    } else if (attention.constant.data != nullptr) {
      RETURN_IF_ERROR(backend_->AddBias(attention.constant, stream));
    }
    const auto& ffn = layers_.blocks[i].ffn;
    if (ffn.layers) {
      RETURN_IF_ERROR(Norm(ffn.norm, stream, normed));
      RETURN_IF_ERROR(FeedForward(*ffn.layers, normed, stream));
    } else if (ffn.constant.data != nullptr) {
      RETURN_IF_ERROR(backend_->AddBias(ffn.constant, stream));
    }
  }
  return RunHead(rows, stream, logits);
}

}  // namespace comera::trainer
