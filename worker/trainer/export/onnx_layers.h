// The layers of a model as nodes of an ONNX graph.
#ifndef COMERA_WORKER_TRAINER_EXPORT_ONNX_LAYERS_H_
#define COMERA_WORKER_TRAINER_EXPORT_ONNX_LAYERS_H_

#include <string>
#include <vector>

#include "worker/trainer/export/onnx_graph.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {

// Adds layers of `model` to `graph`; both outlive it.
class OnnxLayers {
 public:
  using Value = OnnxGraph::Value;

  OnnxLayers(const ImportedModel& model, OnnxGraph* graph);

  // A parameter as it is.
  Value Tensor(const std::string& name);
  // x (..., inputs) to (..., outputs), bias and all.
  Value Linear(const std::string& key, const Value& x);
  Value Norm(const std::string& name, const Value& x);
  // ids (batch, length) to (batch, length, width).
  Value Embedding(const Value& ids);
  // The embedding's whole table (vocabulary, width).
  Value EmbeddingTable();

 private:
  const FactorisableLayer& LayerOf(const std::string& key) const;
  // The layer's cores, each (left, mode, right), or with two modes.
  std::vector<const Parameter*> CoresOf(const FactorisableLayer& layer) const;
  // Cores from `begin` to `end` contracted: (left, modes, right) as a matrix
  // whose columns are the last rank.
  Value Chain(const std::vector<const Parameter*>& cores, size_t begin,
              size_t end);
  // Rows of the word embedding (ids, width) that its cores give, with the dense
  // ones in their places. `ids` (tokens).
  Value WithDenseRows(const FactorisableLayer& layer, const Factorisation& f,
                      const Value& ids, const Value& rows);
  // The word embedding's table by its cores alone.
  Value TableOfCores(const FactorisableLayer& layer, const Factorisation& f);
  Value WithoutBias(const FactorisableLayer& layer, const Factorisation& f,
                    const Value& x);

  const ImportedModel& model_;
  OnnxGraph& graph_;
  const ModelLayout layout_;
  const std::vector<FactorisableLayer> layers_;
  std::map<std::string, Value> tensors_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_ONNX_LAYERS_H_
