// Writes a model as an ONNX file.
#include "worker/trainer/export/onnx_export.h"

#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/export/hf_export.h"
#include "worker/trainer/export/onnx_decoder.h"
#include "worker/trainer/export/onnx_graph.h"
#include "worker/trainer/export/onnx_layers.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

using Value = OnnxGraph::Value;

constexpr size_t kMaxProtobuf = (size_t{1} << 31) - 1;

// (batch, length, hidden).
Value Embed(const ModelConfig& config, bool segments, const Value& ids,
            OnnxGraph* graph, OnnxLayers* layers) {
  const Value words = layers->Embedding(ids);
  const Value length = graph->Slice(graph->Node("Shape", {ids}), 0, 1, 2);
  const Value positions =
      graph->Node("Slice", {layers->Tensor("encoder.embedding.position"),
                            graph->Ints({0}), length, graph->Ints({0})});
  Value table = layers->Tensor("encoder.embedding.segment");
  const Value places =
      segments
          ? graph->Axis(
                "Gather",
                {table, graph->Input("token_type_ids", {"batch", "length"})}, 0)
          : graph->Slice(table, 0, 0, 1);
  return layers->Norm(
      "encoder.embedding.norm",
      graph->Node("Add", {graph->Node("Add", {words, positions}), places}));
}

Value Attend(const ModelConfig& config, const std::string& key, const Value& x,
             const Value& hidden_places, OnnxGraph* graph, OnnxLayers* layers) {
  const int64_t width = config.hidden / config.heads;
  const auto heads = [&](const char* part, const OnnxGraph::Dims& order) {
    return graph->Transpose(graph->Reshape(layers->Linear(key + part, x),
                                           {0, 0, config.heads, width}),
                            order);
  };
  const Value scores = graph->Node(
      "Mul", {graph->Node("MatMul", {heads(".query", {0, 2, 1, 3}),
                                     heads(".key", {0, 2, 3, 1})}),
              graph->Float(static_cast<float>(1 / std::sqrt(width)))});
  const Value weights =
      graph->Axis("Softmax", {graph->Node("Add", {scores, hidden_places})}, -1);
  const Value mixed =
      graph->Node("MatMul", {weights, heads(".value", {0, 2, 1, 3})});
  return layers->Linear(key + ".output",
                        graph->Reshape(graph->Transpose(mixed, {0, 2, 1, 3}),
                                       {0, 0, config.hidden}));
}

void AddHead(const ModelConfig& config, const Value& x, OnnxGraph* graph,
             OnnxLayers* layers) {
  if (config.family == v1::ModelSpec::ENCODER_CLASSIFIER) {
    // [CLS], without its dimension.
    const Value first =
        graph->Reshape(graph->Slice(x, 1, 0, 1), {0, config.hidden});
    const Value pooled = graph->Node("Tanh", {layers->Linear("head", first)});
    const Value logits = graph->Node(
        "Add",
        {graph->Node("MatMul", {pooled, layers->Tensor("head.fc2.weight")}),
         layers->Tensor("head.fc2.bias")});
    graph->Output("logits", logits, {"batch", absl::StrCat(config.classes)});
    return;
  }
  const Value normed =
      layers->Norm("head.norm", graph->Gelu(layers->Linear("head", x)));
  const Value logits =
      config.tie_output
          ? graph->Node(
                "Add",
                {graph->Node("MatMul",
                             {normed, graph->Transpose(layers->EmbeddingTable(),
                                                       {1, 0})}),
                 layers->Tensor("head.output.bias")})
          : layers->Linear("output", normed);
  graph->Output("logits", logits,
                {"batch", "length", absl::StrCat(config.vocabulary)});
}

onnx::ModelProto BuildEncoder(const ImportedModel& model, bool segments,
                              const InputFormat& format) {
  const ModelConfig& config = model.config;
  OnnxGraph graph("comera");
  OnnxLayers layers(model, &graph);
  const Value ids = graph.Input("input_ids", {"batch", "length"});
  const Value mask = graph.Input("attention_mask", {"batch", "length"});
  Value x = Embed(config, segments, ids, &graph, &layers);
  // (batch, 1, 1, length): far below any score where there is padding.
  const Value hidden_places =
      graph.Node("Unsqueeze",
                 {graph.Node("Mul", {graph.Node("Sub", {graph.CastToFloat(mask),
                                                        graph.Float(1.0f)}),
                                     graph.Float(1e9f)}),
                  graph.Ints({1, 2})});
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string key = absl::StrCat("layers.", i);
    const std::string name = absl::StrCat("encoder.layers.", i);
    x = layers.Norm(name + ".attention.norm",
                    graph.Node("Add", {x, Attend(config, key, x, hidden_places,
                                                 &graph, &layers)}));
    const Value inner = graph.Gelu(layers.Linear(key + ".ffn_up", x));
    x = layers.Norm(
        name + ".ffn.norm",
        graph.Node("Add", {x, layers.Linear(key + ".ffn_down", inner)}));
  }
  AddHead(config, x, &graph, &layers);
  return graph.Finish({{"labels", absl::StrJoin(format.labels, "\n")},
                       {"max_length", absl::StrCat(config.length)}});
}

}  // namespace

absl::Status ExportToOnnx(const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(from));
  if (model.config.family == v1::ModelSpec::DLRM) {
    return absl::FailedPreconditionError(
        "onnx: only models of text have that form, not DLRM");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   LoadSavedTokenizer(from));
  if (tokenizer->vocabulary_size() != model.config.vocabulary) {
    return absl::DataLossError(absl::StrCat(
        from, ": the vocabulary has ", tokenizer->vocabulary_size(),
        " tokens, the model ", model.config.vocabulary));
  }
  if (model.parameters.size() * sizeof(float) > kMaxProtobuf) {
    return absl::FailedPreconditionError(
        "onnx: the model is larger than 2 GiB, which no protobuf holds");
  }
  onnx::ModelProto graph;
  if (model.config.causal()) {
    graph = BuildOnnxDecoder(model);
  } else {
    ASSIGN_OR_RETURN(const InputFormat format, LoadInputFormat(from));
    graph = BuildEncoder(
        model, tokenizer->has_segments() && model.config.segments > 1, format);
  }
  std::string bytes;
  if (graph.ByteSizeLong() > kMaxProtobuf || !graph.SerializeToString(&bytes)) {
    return absl::FailedPreconditionError(
        "onnx: the model is larger than 2 GiB, which no protobuf holds");
  }
  RETURN_IF_ERROR(CopyTokenizer(from, to));
  return WriteFileAtomically(absl::StrCat(to, "/", kOnnxFile), bytes);
}

}  // namespace comera::trainer
