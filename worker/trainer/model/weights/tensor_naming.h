#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_TENSOR_NAMING_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_TENSOR_NAMING_H_

#include <cstdint>
#include <string>
#include <vector>

namespace comera::trainer {

// Where a checkpoint may keep one of our parameters.
struct TensorPlace {
  std::string name;
  // A matrix is (outputs, inputs) there.
  bool transposed = false;
  // It is part number `part` of a tensor of so many equal parts side by side,
  // along the last axis.
  int64_t part = 0;
  int64_t parts = 1;
  // Its rows begin after so many others.
  int64_t skipped_rows = 0;
};

// The names that one kind of checkpoint has for our parameters (those of a
// dense MakeModelLayout).
class TensorNaming {
 public:
  virtual ~TensorNaming() = default;

  // The name that messages use, e.g. "BERT".
  virtual const char* name() const = 0;

  // Places of the parameter, of which the first that the checkpoint has holds
  // it. Empty: this kind of checkpoint never has it.
  virtual std::vector<TensorPlace> Places(
      const std::string& parameter) const = 0;

  // Whether a model of so many layers computes the same without this tensor.
  virtual bool MayBeLeftOut(const std::string& tensor, int64_t layers) const {
    return true;
  }
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_TENSOR_NAMING_H_
