// Builds the graph of a LLaMA or GPT-2 with keys and values that are kept.
#include "worker/trainer/export/onnx_decoder.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/trainer/export/onnx_graph.h"
#include "worker/trainer/export/onnx_layers.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

using Value = OnnxGraph::Value;
using Dims = OnnxGraph::Dims;

// Far below any score.
constexpr float kHidden = -1e9f;

class Decoder {
 public:
  explicit Decoder(const ImportedModel& model)
      : config_(model.config),
        heads_(config_.heads),
        width_(config_.head_width()),
        kv_heads_(config_.key_width() / width_),
        graph_("comera"),
        layers_(model, &graph_) {}

  onnx::ModelProto Build() {
    const Value ids = graph_.Input("input_ids", {"batch", "length"});
    const Value mask = graph_.Input("attention_mask", {"batch", "total"});
    const Value positions = graph_.Input("position_ids", {"batch", "length"});
    SetHidden(ids, mask);
    if (config_.llama()) SetAngles(positions);
    Value x = layers_.Embedding(ids);
    if (!config_.llama()) {
      x = Add(
          x, graph_.Axis(
                 "Gather",
                 {layers_.Tensor("decoder.embedding.position"), positions}, 0));
    }
    for (int64_t i = 0; i < config_.layers; ++i) {
      x = Add(x, Attend(i, x));
      x = Add(x, FeedForward(i, x));
    }
    x = layers_.Norm("head.norm", x);
    const Value logits =
        config_.tie_output
            ? graph_.Node("MatMul", {x, graph_.Transpose(
                                            layers_.EmbeddingTable(), {1, 0})})
            : layers_.Linear("output", x);
    graph_.Output("logits", logits,
                  {"batch", "length", absl::StrCat(config_.vocabulary)});
    return graph_.Finish({{"max_length", absl::StrCat(config_.max_positions)}});
  }

 private:
  Value Add(const Value& a, const Value& b) {
    return graph_.Node("Add", {a, b});
  }
  Value Mul(const Value& a, const Value& b) {
    return graph_.Node("Mul", {a, b});
  }
  Value Unsqueeze(const Value& x, const Dims& axes) {
    return graph_.Node("Unsqueeze", {x, graph_.Ints(axes)});
  }
  // A list of one number as a number.
  Value Single(const Value& x) { return graph_.Node("Squeeze", {x}); }

  // hidden_, (batch, 1, 1, length, total): a token sees itself and those before
  // it that are no padding.
  void SetHidden(const Value& ids, const Value& mask) {
    const Value length =
        Single(graph_.Slice(graph_.Node("Shape", {ids}), 0, 1, 2));
    const Value total =
        Single(graph_.Slice(graph_.Node("Shape", {mask}), 0, 1, 2));
    const Value one = Single(graph_.Ints({1}));
    const Value keys =
        graph_.Node("Range", {Single(graph_.Ints({0})), total, one});
    const Value queries = Unsqueeze(
        graph_.Node("Range", {graph_.Node("Sub", {total, length}), total, one}),
        {1});
    const Value own = graph_.Node("Equal", {keys, queries});
    const Value before = graph_.Node("Less", {keys, queries});
    const Value words = Unsqueeze(
        graph_.Node("Greater", {mask, Single(graph_.Ints({0}))}), {1});
    const Value seen =
        graph_.Node("Or", {own, graph_.Node("And", {before, words})});
    hidden_ = Unsqueeze(
        graph_.Node("Where", {seen, graph_.Float(0.0f), graph_.Float(kHidden)}),
        {1, 2});
  }

  // Cosines and sines, (batch, 1, length, head width / 2).
  void SetAngles(const Value& positions) {
    std::vector<float> speeds(width_ / 2);
    for (int64_t i = 0; i < width_ / 2; ++i) {
      speeds[i] = static_cast<float>(std::pow(
          static_cast<double>(config_.rope_theta),
          -2.0 * static_cast<double>(i) / static_cast<double>(width_)));
    }
    const Value angles =
        Mul(Unsqueeze(graph_.CastToFloat(positions), {1, 3}),
            graph_.Floats("rotary.speeds", {width_ / 2}, speeds.data()));
    cos_ = graph_.Node("Cos", {angles});
    sin_ = graph_.Node("Sin", {angles});
  }

  // x (batch, heads, length, head width) with halves of heads turned.
  Value Rotate(const Value& x) {
    if (!config_.llama()) return x;
    const Value a = graph_.Slice(x, 3, 0, width_ / 2);
    const Value b = graph_.Slice(x, 3, width_ / 2, width_);
    return graph_.Axis("Concat",
                       {graph_.Node("Sub", {Mul(a, cos_), Mul(b, sin_)}),
                        Add(Mul(b, cos_), Mul(a, sin_))},
                       3);
  }

  // (batch, heads, length, head width)
  Value Heads(const std::string& key, const Value& x, int64_t heads) {
    return graph_.Transpose(
        graph_.Reshape(layers_.Linear(key, x), {0, 0, heads, width_}),
        {0, 2, 1, 3});
  }

  // What was kept and `x`, which becomes what is kept.
  Value Keep(int64_t layer, const char* what, const Value& x) {
    const std::string heads = absl::StrCat(kv_heads_);
    const std::string width = absl::StrCat(width_);
    const Value past =
        graph_.FloatInput(absl::StrCat("past_key_values.", layer, ".", what),
                          {"batch", heads, "past", width});
    const Value all = graph_.Axis("Concat", {past, x}, 2);
    graph_.Output(absl::StrCat("present.", layer, ".", what), all,
                  {"batch", heads, "total", width});
    return all;
  }

  Value Attend(int64_t layer, const Value& stream) {
    const std::string key = absl::StrCat("layers.", layer);
    const Value x = layers_.Norm(
        absl::StrCat("decoder.layers.", layer, ".attention.norm"), stream);
    const Value q = Rotate(Heads(key + ".query", x, heads_));
    const Value k =
        Keep(layer, "key", Rotate(Heads(key + ".key", x, kv_heads_)));
    const Value v = Keep(layer, "value", Heads(key + ".value", x, kv_heads_));
    // A group of query heads, the third dimension, shares keys and values.
    const Value groups = graph_.Node(
        "Reshape",
        {q, graph_.Axis("Concat",
                        {graph_.Ints({0, kv_heads_, heads_ / kv_heads_}),
                         graph_.Slice(graph_.Node("Shape", {q}), 0, 2, 4)},
                        0)});
    const Value scores = Mul(
        graph_.Node("MatMul", {groups, graph_.Transpose(Unsqueeze(k, {2}),
                                                        {0, 1, 2, 4, 3})}),
        graph_.Float(
            static_cast<float>(1 / std::sqrt(static_cast<double>(width_)))));
    const Value weights = graph_.Axis("Softmax", {Add(scores, hidden_)}, -1);
    // (batch, kv heads, group, length, head width)
    const Value mixed = graph_.Node("MatMul", {weights, Unsqueeze(v, {2})});
    return layers_.Linear(
        key + ".output",
        graph_.Reshape(graph_.Transpose(mixed, {0, 3, 1, 2, 4}),
                       {0, 0, config_.hidden}));
  }

  Value FeedForward(int64_t layer, const Value& stream) {
    const std::string key = absl::StrCat("layers.", layer);
    const Value x = layers_.Norm(
        absl::StrCat("decoder.layers.", layer, ".ffn.norm"), stream);
    Value inner = layers_.Linear(key + ".ffn_up", x);
    if (config_.llama()) {
      const Value gate = layers_.Linear(key + ".ffn_gate", x);
      inner = Mul(config_.gate_silu ? graph_.Silu(gate) : gate, inner);
    } else {
      inner = graph_.GeluTanh(inner);
    }
    return layers_.Linear(key + ".ffn_down", inner);
  }

  const ModelConfig& config_;
  const int64_t heads_, width_, kv_heads_;
  OnnxGraph graph_;
  OnnxLayers layers_;
  Value hidden_, cos_, sin_;
};

}  // namespace

onnx::ModelProto BuildOnnxDecoder(const ImportedModel& model) {
  return Decoder(model).Build();
}

}  // namespace comera::trainer
