// Builds an ONNX graph node by node and writes it.
#include "worker/trainer/export/onnx_graph.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/version.h"

namespace comera::trainer {
namespace {

constexpr int64_t kIrVersion = 8;
constexpr int64_t kOperatorSet = 17;

void AddInt(const char* name, int64_t value, onnx::NodeProto* node) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_i(value);
  attribute->set_type(onnx::AttributeProto::INT);
}

}  // namespace

OnnxGraph::OnnxGraph(const std::string& name) {
  model_.set_ir_version(kIrVersion);
  model_.set_producer_name("comera");
  model_.set_producer_version(kVersion);
  onnx::OperatorSetIdProto* operators = model_.add_opset_import();
  operators->set_domain("");
  operators->set_version(kOperatorSet);
  model_.mutable_graph()->set_name(name);
}

void OnnxGraph::SetShape(const std::vector<std::string>& dims, int32_t type,
                         onnx::ValueInfoProto* info) {
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  for (const std::string& dim : dims) {
    int64_t number = 0;
    auto* entry = tensor->mutable_shape()->add_dim();
    if (absl::SimpleAtoi(dim, &number)) {
      entry->set_dim_value(number);
    } else {
      entry->set_dim_param(dim);
    }
  }
}

OnnxGraph::Value OnnxGraph::AddInput(const std::string& name,
                                     const std::vector<std::string>& dims,
                                     int32_t type) {
  onnx::ValueInfoProto* info = model_.mutable_graph()->add_input();
  info->set_name(name);
  SetShape(dims, type, info);
  return name;
}

OnnxGraph::Value OnnxGraph::Input(const std::string& name,
                                  const std::vector<std::string>& dims) {
  return AddInput(name, dims, onnx::TensorProto::INT64);
}

OnnxGraph::Value OnnxGraph::FloatInput(const std::string& name,
                                       const std::vector<std::string>& dims) {
  return AddInput(name, dims, onnx::TensorProto::FLOAT);
}

void OnnxGraph::Output(const std::string& name, const Value& value,
                       const std::vector<std::string>& dims) {
  onnx::NodeProto* node = Add("Identity", {value});
  node->set_output(0, name);
  onnx::ValueInfoProto* info = model_.mutable_graph()->add_output();
  info->set_name(name);
  SetShape(dims, onnx::TensorProto::FLOAT, info);
}

OnnxGraph::Value OnnxGraph::Floats(const std::string& name, const Dims& dims,
                                   const float* values) {
  onnx::TensorProto* tensor = model_.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : dims) tensor->add_dims(dim);
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1},
                                        std::multiplies<>());
  tensor->set_raw_data(reinterpret_cast<const char*>(values),
                       static_cast<size_t>(count) * sizeof(float));
  return name;
}

OnnxGraph::Value OnnxGraph::Ints(const Dims& values) {
  Value& name = ints_[values];
  if (!name.empty()) return name;
  name = absl::StrCat("ints.", ints_.size());
  onnx::TensorProto* tensor = model_.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  tensor->set_raw_data(reinterpret_cast<const char*>(values.data()),
                       values.size() * sizeof(int64_t));
  return name;
}

OnnxGraph::Value OnnxGraph::Float(float value) {
  Value& name = floats_[value];
  if (name.empty()) {
    name = Floats(absl::StrCat("float.", floats_.size()), {}, &value);
  }
  return name;
}

onnx::NodeProto* OnnxGraph::Add(const std::string& op,
                                const std::vector<Value>& inputs) {
  onnx::NodeProto* node = model_.mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_name(absl::StrCat(op, ".", next_));
  for (const Value& input : inputs) node->add_input(input);
  node->add_output(absl::StrCat("v.", next_++));
  return node;
}

OnnxGraph::Value OnnxGraph::Node(const std::string& op,
                                 const std::vector<Value>& inputs) {
  return Add(op, inputs)->output(0);
}

OnnxGraph::Value OnnxGraph::Axis(const std::string& op,
                                 const std::vector<Value>& inputs,
                                 int64_t axis) {
  onnx::NodeProto* node = Add(op, inputs);
  AddInt("axis", axis, node);
  return node->output(0);
}

OnnxGraph::Value OnnxGraph::Transpose(const Value& x, const Dims& order) {
  onnx::NodeProto* node = Add("Transpose", {x});
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name("perm");
  attribute->set_type(onnx::AttributeProto::INTS);
  for (const int64_t axis : order) attribute->add_ints(axis);
  return node->output(0);
}

OnnxGraph::Value OnnxGraph::Reshape(const Value& x, const Dims& shape) {
  return Node("Reshape", {x, Ints(shape)});
}

OnnxGraph::Value OnnxGraph::Slice(const Value& x, int64_t axis, int64_t begin,
                                  int64_t end) {
  return Node("Slice", {x, Ints({begin}), Ints({end}), Ints({axis})});
}

OnnxGraph::Value OnnxGraph::CastToFloat(const Value& x) {
  onnx::NodeProto* node = Add("Cast", {x});
  AddInt("to", onnx::TensorProto::FLOAT, node);
  return node->output(0);
}

OnnxGraph::Value OnnxGraph::LayerNorm(const Value& x, const Value& gamma,
                                      const Value& beta, float epsilon) {
  onnx::NodeProto* node = Add("LayerNormalization", {x, gamma, beta});
  AddInt("axis", -1, node);
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name("epsilon");
  attribute->set_f(epsilon);
  attribute->set_type(onnx::AttributeProto::FLOAT);
  return node->output(0);
}

OnnxGraph::Value OnnxGraph::Gelu(const Value& x) {
  const Value erf =
      Node("Erf", {Node("Mul", {x, Float(static_cast<float>(M_SQRT1_2))})});
  const Value half = Node("Mul", {x, Float(0.5f)});
  return Node("Mul", {half, Node("Add", {erf, Float(1.0f)})});
}

OnnxGraph::Value OnnxGraph::RmsNorm(const Value& x, const Value& gamma,
                                    float epsilon) {
  onnx::NodeProto* mean = Add("ReduceMean", {Node("Mul", {x, x})});
  AddInt("keepdims", 1, mean);
  onnx::AttributeProto* axes = mean->add_attribute();
  axes->set_name("axes");
  axes->set_type(onnx::AttributeProto::INTS);
  axes->add_ints(-1);
  const Value squares = mean->output(0);
  const Value root = Node("Sqrt", {Node("Add", {squares, Float(epsilon)})});
  return Node("Mul", {Node("Div", {x, root}), gamma});
}

OnnxGraph::Value OnnxGraph::GeluTanh(const Value& x) {
  const Value cube = Node("Mul", {Node("Mul", {x, x}), x});
  const Value bent = Node("Add", {x, Node("Mul", {cube, Float(0.044715f)})});
  const Value tanh =
      Node("Tanh",
           {Node("Mul",
                 {bent, Float(static_cast<float>(M_SQRT2 * M_2_SQRTPI / 2))})});
  const Value half = Node("Mul", {x, Float(0.5f)});
  return Node("Mul", {half, Node("Add", {tanh, Float(1.0f)})});
}

OnnxGraph::Value OnnxGraph::Silu(const Value& x) {
  return Node("Mul", {x, Node("Sigmoid", {x})});
}

onnx::ModelProto OnnxGraph::Finish(
    const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) {
    onnx::StringStringEntryProto* entry = model_.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  return std::move(model_);
}

}  // namespace comera::trainer
