// Where every parameter lies in the flat buffers that parameters, gradients
// and moments share, so that the optimiser is one call and the all-reduce is
// one or a few.
#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_PARAMETER_LAYOUT_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_PARAMETER_LAYOUT_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace comera::trainer {

enum class ParameterKind {
  kCore,    // tensor-train core
  kRank,    // rank entries d of one bond
  kDense,   // weights, biases, LayerNorm, position and segment tables
  kFrozen,  // weights beside which something smaller is trained
};

struct Parameter {
  std::string name;  // e.g. "encoder.layers.0.attention.query.core.2"
  std::vector<int64_t> shape;
  ParameterKind kind = ParameterKind::kDense;
  // Belongs to the classifier or masked-LM head, not the encoder.
  bool in_head = false;
  int64_t offset = 0;  // in floats
  int64_t size = 0;    // product of shape
  // The rows of a (rows, width) table are looked up by number, so that a step's
  // gradient is 0 in all rows but a few.
  bool table = false;
  // The exported model does not hold it.
  bool training_only = false;

  // GaLore: the gradient (m, n) is projected to this rank r, 0: not. Then each
  // moment is (max(m, n), r) and there is a projector (min(m, n), r).
  int64_t projection_rank = 0;
  // The place in either moment's buffer: as many floats as the parameter,
  // unless it is projected or frozen.
  int64_t moment_offset = 0;
  int64_t moment_size = 0;
  int64_t projector_offset = 0;
  int64_t projector_size = 0;
};

// Neighbouring parameters: the floats [first, first + size) of their buffer.
struct ParameterRange {
  int64_t first = 0;
  int64_t size = 0;

  bool Holds(const Parameter& p) const {
    return p.offset >= first && p.offset + p.size <= first + size;
  }
};

// Parameters in order, packed without gaps. The frozen ones come last, so that
// gradients are a buffer of trained_size().
class ParameterLayout {
 public:
  // Adds a parameter and returns its index. Only matrices can be projected.
  int Add(std::string name, std::vector<int64_t> shape, ParameterKind kind,
          bool in_head, int64_t projection_rank = 0);
  void SetTable(int index) { parameters_[index].table = true; }
  void SetTrainingOnly(int index) { parameters_[index].training_only = true; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter& operator[](int index) const { return parameters_[index]; }
  int64_t size() const { return size_; }  // floats
  // Floats of the trained parameters: the gradient's and the all-reduce's.
  int64_t trained_size() const { return trained_size_; }
  // Floats of one moment, and of all projectors.
  int64_t moments_size() const { return moments_size_; }
  int64_t projectors_size() const { return projectors_size_; }
  // The index of a parameter, -1 if there is none.
  int Find(const std::string& name) const;

 private:
  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, int> index_;  // by name
  int64_t size_ = 0;
  int64_t trained_size_ = 0;
  int64_t moments_size_ = 0;
  int64_t projectors_size_ = 0;
};

// A layer in tensor-train form: cores G_1..G_order and the bonds between them.
struct TensorisedLayer {
  std::string name;         // e.g. "encoder.layers.0.attention.query"
  std::string layer_class;  // as FactorisableLayer's
  // modes[i] is the factor of core i in the size formula: n_i for TT, m_i n_i
  // for TTM (REFERENCE.md, "Size").
  std::vector<int64_t> modes;
  // Stored ranks r_0..r_order; r_0 = r_order = 1 unless the layer is pruned,
  // in which case all inner ranks are 0.
  std::vector<int64_t> ranks;
  std::vector<int> cores;  // parameter indices, order of them
  std::vector<int> bonds;  // parameter indices of d_1..d_{order-1}
  // The bond whose entries pass a nonlinearity one by one, so that no change
  // of its basis leaves the layer's function alone; -1: none does.
  int nonlinear_bond = -1;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_PARAMETER_LAYOUT_H_
