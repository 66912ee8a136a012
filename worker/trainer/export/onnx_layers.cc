// The layers of a model as nodes of an ONNX graph.
#include "worker/trainer/export/onnx_layers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::trainer {

using Value = OnnxGraph::Value;
using Dims = OnnxGraph::Dims;

OnnxLayers::OnnxLayers(const ImportedModel& model, OnnxGraph* graph)
    : model_(model),
      graph_(*graph),
      layout_(MakeModelLayout(model.config)),
      layers_(FactorisableLayers(model.config)) {}

Value OnnxLayers::Tensor(const std::string& name) {
  Value& value = tensors_[name];
  if (!value.empty()) return value;
  const Parameter& p = layout_.parameters[layout_.parameters.Find(name)];
  value = graph_.Floats(name, p.shape, model_.parameters.data() + p.offset);
  return value;
}

const FactorisableLayer& OnnxLayers::LayerOf(const std::string& key) const {
  return *std::find_if(
      layers_.begin(), layers_.end(),
      [&](const FactorisableLayer& layer) { return layer.key == key; });
}

std::vector<const Parameter*> OnnxLayers::CoresOf(
    const FactorisableLayer& layer) const {
  std::vector<const Parameter*> cores;
  const auto found = std::find_if(
      layout_.layers.begin(), layout_.layers.end(),
      [&](const TensorisedLayer& one) { return one.name == layer.name; });
  for (const int index : found->cores) {
    cores.push_back(&layout_.parameters[index]);
  }
  return cores;
}

Value OnnxLayers::Chain(const std::vector<const Parameter*>& cores,
                        size_t begin, size_t end) {
  const Parameter& first = *cores[begin];
  int64_t rows = first.shape[0] * first.shape[1];
  int64_t rank = first.shape[2];
  Value left = graph_.Reshape(Tensor(first.name), {rows, rank});
  for (size_t i = begin + 1; i < end; ++i) {
    const Dims& shape = cores[i]->shape;
    const Value right =
        graph_.Reshape(Tensor(cores[i]->name), {shape[0], shape[1] * shape[2]});
    rows *= shape[1];
    left =
        graph_.Reshape(graph_.Node("MatMul", {left, right}), {rows, shape[2]});
    rank = shape[2];
  }
  return left;
}

Value OnnxLayers::WithoutBias(const FactorisableLayer& layer,
                              const Factorisation& f, const Value& x) {
  if (!f.dense()) {
    const std::vector<const Parameter*> cores = CoresOf(layer);
    const size_t split = f.input_modes.size();
    const int64_t rank = cores[split]->shape[0];
    Value t = graph_.Node("MatMul", {x, Chain(cores, 0, split)});
    if (f.silu) t = graph_.Silu(t);
    Value b = graph_.Reshape(Chain(cores, split, cores.size()), {rank, -1});
    int64_t columns = 1;
    for (const int64_t mode : f.output_modes) columns *= mode;
    if (columns > layer.outputs) b = graph_.Slice(b, 1, 0, layer.outputs);
    return graph_.Node("MatMul", {t, b});
  }
  const LowRank& low = f.low_rank;
  if (low.kind == LowRank::Kind::kNone || low.kind == LowRank::Kind::kGalore) {
    return graph_.Node("MatMul", {x, Tensor(layer.name + ".weight")});
  }
  Value t = graph_.Node("MatMul", {x, Tensor(layer.name + ".a")});
  if (low.kind == LowRank::Kind::kCola) {
    if (!low.linear) t = graph_.Silu(t);
    return graph_.Node("MatMul", {t, Tensor(layer.name + ".b")});
  }
  const auto scale =
      static_cast<float>(low.scale / static_cast<double>(low.heads));
  const Value beside =
      graph_.Node("Mul", {graph_.Node("MatMul", {t, Tensor(layer.name + ".b")}),
                          graph_.Float(scale)});
  return graph_.Node(
      "Add",
      {graph_.Node("MatMul", {x, Tensor(layer.name + ".weight")}), beside});
}

Value OnnxLayers::Linear(const std::string& key, const Value& x) {
  const FactorisableLayer& layer = LayerOf(key);
  const Factorisation& f = model_.config.layers_by_name.at(key);
  if (f.dense() || f.ranks[0] != 0) {
    const Value product = WithoutBias(layer, f, x);
    if (!layer.bias) return product;
    return graph_.Node("Add", {product, Tensor(layer.name + ".bias")});
  }
  // Pruned: its bias or zeros, as often as x has rows.
  const Value row = layer.bias
                        ? Tensor(layer.name + ".bias")
                        : graph_.Node("Expand", {graph_.Float(0.0f),
                                                 graph_.Ints({layer.outputs})});
  const Value first = graph_.Axis("Gather", {x, graph_.Ints({0})}, -1);
  return graph_.Node("Add",
                     {graph_.Node("Mul", {first, graph_.Float(0.0f)}), row});
}

Value OnnxLayers::Norm(const std::string& name, const Value& x) {
  const float epsilon = model_.config.layer_norm_epsilon;
  const Value gamma = Tensor(name + ".gamma");
  if (model_.config.llama()) return graph_.RmsNorm(x, gamma, epsilon);
  return graph_.LayerNorm(x, gamma, Tensor(name + ".beta"), epsilon);
}

Value OnnxLayers::Embedding(const Value& ids) {
  const FactorisableLayer& layer = LayerOf("embedding");
  const Factorisation& f = model_.config.layers_by_name.at("embedding");
  if (f.dense()) {
    return graph_.Axis("Gather", {Tensor(layer.name + ".weight"), ids}, 0);
  }
  const Value shape = graph_.Axis(
      "Concat", {graph_.Node("Shape", {ids}), graph_.Ints({layer.outputs})}, 0);
  const Value flat = graph_.Reshape(ids, {-1});
  if (f.ranks[0] == 0) {
    const Value zeros = graph_.Node("Expand", {graph_.Float(0.0f), shape});
    if (f.dense_tokens.empty()) return zeros;
    return graph_.Node(
        "Reshape", {WithDenseRows(layer, f, flat,
                                  graph_.Reshape(zeros, {-1, layer.outputs})),
                    shape});
  }
  const std::vector<const Parameter*> cores = CoresOf(layer);
  Value rows;  // (tokens, columns so far, rank)
  int64_t divisor = 1, columns = 1;
  for (const Parameter* core : cores) divisor *= core->shape[1];
  for (const Parameter* core : cores) {
    const int64_t left = core->shape[0], m = core->shape[1], n = core->shape[2],
                  right = core->shape[3];
    divisor /= m;
    const Value index = graph_.Node(
        "Mod",
        {graph_.Node("Div", {flat, graph_.Ints({divisor})}), graph_.Ints({m})});
    const Value by_row =
        graph_.Reshape(graph_.Transpose(Tensor(core->name), {1, 0, 2, 3}),
                       {m, left, n * right});
    const Value slices = graph_.Axis("Gather", {by_row, index}, 0);
    const Value product =
        rows.empty() ? slices : graph_.Node("MatMul", {rows, slices});
    columns *= n;
    rows = graph_.Reshape(product, {-1, columns, right});
  }
  rows = graph_.Reshape(rows, {-1, layer.outputs});
  return graph_.Node("Reshape", {WithDenseRows(layer, f, flat, rows), shape});
}

Value OnnxLayers::WithDenseRows(const FactorisableLayer& layer,
                                const Factorisation& f, const Value& ids,
                                const Value& rows) {
  if (f.dense_tokens.empty()) return rows;
  // A token without a dense row points at the first one, which Where leaves out.
  Dims slots(layer.inputs, 0), has_slot(layer.inputs, 0);
  for (size_t i = 0; i < f.dense_tokens.size(); ++i) {
    slots[f.dense_tokens[i]] = static_cast<int64_t>(i);
    has_slot[f.dense_tokens[i]] = 1;
  }
  const Value slot = graph_.Axis("Gather", {graph_.Ints(slots), ids}, 0);
  const Value own =
      graph_.Axis("Gather", {Tensor(layer.name + ".dense_rows"), slot}, 0);
  const Value is_dense = graph_.Node(
      "Equal",
      {graph_.Reshape(graph_.Axis("Gather", {graph_.Ints(has_slot), ids}, 0),
                      {-1, 1}),
       graph_.Ints({1})});
  return graph_.Node("Where", {is_dense, own, rows});
}

Value OnnxLayers::EmbeddingTable() {
  const FactorisableLayer& layer = LayerOf("embedding");
  const Factorisation& f = model_.config.layers_by_name.at("embedding");
  if (f.dense()) return Tensor(layer.name + ".weight");
  const Value table = TableOfCores(layer, f);
  if (f.dense_tokens.empty()) return table;
  const Value places = graph_.Reshape(
      graph_.Ints(Dims(f.dense_tokens.begin(), f.dense_tokens.end())), {-1, 1});
  return graph_.Node("ScatterND",
                     {table, places, Tensor(layer.name + ".dense_rows")});
}

Value OnnxLayers::TableOfCores(const FactorisableLayer& layer,
                               const Factorisation& f) {
  if (f.ranks[0] == 0) {
    return graph_.Node("Expand", {graph_.Float(0.0f),
                                  graph_.Ints({layer.inputs, layer.outputs})});
  }
  Value left;
  int64_t rows = 1, columns = 1;
  for (const Parameter* core : CoresOf(layer)) {
    const int64_t rank = core->shape[0], m = core->shape[1], n = core->shape[2],
                  right = core->shape[3];
    Value next = graph_.Reshape(Tensor(core->name), {rank, m * n * right});
    if (!left.empty()) next = graph_.Node("MatMul", {left, next});
    next = graph_.Transpose(graph_.Reshape(next, {rows, columns, m, n, right}),
                            {0, 2, 1, 3, 4});
    rows *= m;
    columns *= n;
    left = graph_.Reshape(next, {rows * columns, right});
  }
  return graph_.Slice(graph_.Reshape(left, {rows, columns}), 0, 0,
                      layer.inputs);
}

}  // namespace comera::trainer
