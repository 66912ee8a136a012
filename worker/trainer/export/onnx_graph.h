#ifndef COMERA_WORKER_TRAINER_EXPORT_ONNX_GRAPH_H_
#define COMERA_WORKER_TRAINER_EXPORT_ONNX_GRAPH_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/trainer/export/onnx.pb.h"

namespace comera::trainer {

// Builds an ONNX graph (operator set 17), node by node in the order in which
// they run. What a method returns is the name of a value.
//
//   OnnxGraph graph("encoder");
//   graph.Input("x", {"batch", "8"});
//   graph.Output("y", graph.Node("Relu", {"x"}), {"batch", "8"});
class OnnxGraph {
 public:
  using Value = std::string;
  using Dims = std::vector<int64_t>;

  explicit OnnxGraph(const std::string& name);

  // Dimensions: numbers, or names of what may vary. Inputs are int64 or float,
  // outputs float.
  Value Input(const std::string& name, const std::vector<std::string>& dims);
  Value FloatInput(const std::string& name,
                   const std::vector<std::string>& dims);
  void Output(const std::string& name, const Value& value,
              const std::vector<std::string>& dims);

  // Numbers that the file holds.
  Value Floats(const std::string& name, const Dims& dims, const float* values);
  // The same numbers are held once.
  Value Ints(const Dims& values);
  Value Float(float value);

  Value Node(const std::string& op, const std::vector<Value>& inputs);
  Value Axis(const std::string& op, const std::vector<Value>& inputs,
             int64_t axis);
  Value Transpose(const Value& x, const Dims& order);
  Value Reshape(const Value& x, const Dims& shape);
  // x[begin:end] along one axis.
  Value Slice(const Value& x, int64_t axis, int64_t begin, int64_t end);
  Value CastToFloat(const Value& x);
  Value LayerNorm(const Value& x, const Value& gamma, const Value& beta,
                  float epsilon);
  // x / sqrt(mean of the squares + epsilon) * gamma, over the last dimension.
  Value RmsNorm(const Value& x, const Value& gamma, float epsilon);
  // The exact one, by Erf.
  Value Gelu(const Value& x);
  // GPT-2's, by Tanh.
  Value GeluTanh(const Value& x);
  // x times its sigmoid.
  Value Silu(const Value& x);

  // The finished model.
  onnx::ModelProto Finish(const std::map<std::string, std::string>& metadata);

 private:
  Value AddInput(const std::string& name, const std::vector<std::string>& dims,
                 int32_t type);
  onnx::NodeProto* Add(const std::string& op, const std::vector<Value>& inputs);
  static void SetShape(const std::vector<std::string>& dims, int32_t type,
                       onnx::ValueInfoProto* info);

  onnx::ModelProto model_;
  std::map<Dims, Value> ints_;
  std::map<float, Value> floats_;
  int64_t next_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_ONNX_GRAPH_H_
