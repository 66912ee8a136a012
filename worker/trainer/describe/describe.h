// The description of a task: its work, memory and time, before anything runs.
#ifndef COMERA_WORKER_TRAINER_DESCRIBE_DESCRIBE_H_
#define COMERA_WORKER_TRAINER_DESCRIBE_DESCRIBE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/planning/step_prediction.h"
#include "worker/trainer/process/task.pb.h"

namespace comera::trainer {

struct DescribeOptions {
  // The tokens in the vocabulary; 0: from the task, a vocabulary file, or
  // assumed.
  int64_t vocabulary = 0;
};

// One factorisable layer on one member.
struct LayerDescription {
  std::string name;
  std::string layer_class;
  std::string path;    // e.g. "prefix/suffix", "dense", "gone"
  std::string groups;  // e.g. "123|456"; empty where there are none
  // Rows in one part of a step; embedding: distinct tokens at most.
  int64_t rows = 0;
  int64_t parameters = 0;
  int64_t bytes = 0;  // parameters, gradients and moments together
  int64_t dense_parameters = 0;
  // Multiply-adds and seconds of the layer's part of a step, forward and
  // backward; and those of the dense layer.
  double multiply_adds = 0;
  double seconds = 0;
  double dense_multiply_adds = 0;
  double dense_seconds = 0;
};

// The bytes at the step's peak, by their purpose.
struct MemoryDescription {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t moments = 0;
  int64_t activations = 0;  // and workspace: they share memory
  int64_t scratch = 0;      // operations and the math library
  int64_t data = 0;
  int64_t process = 0;  // program and libraries
  // The copies on the host while a checkpoint is written.
  int64_t checkpoint = 0;
  int64_t peak() const {
    return parameters + gradients + moments + activations + scratch + data +
           process + checkpoint;
  }
};

struct TaskDescription {
  std::vector<LayerDescription> layers;
  StepPrediction step;       // on one member
  double dense_seconds = 0;  // a step of the dense model
  MemoryDescription memory;  // what one member needs
  int64_t parameters = 0;
  int64_t dense_parameters = 0;
  int64_t batch_size = 0;  // samples of one member
  int64_t parts = 1;       // they are computed in (training.accumulate)
  int64_t ranks = 1;
  kernels::MachineSpeed machine;
  std::string machine_name;
  bool calibrated = false;
  // The assumptions about what the task does not say.
  std::vector<std::string> assumptions;
};

// Describes a task. Reads no data but the vocabulary's file, where its size
// stands nowhere else. InvalidArgument: an impossible task, naming the field.
absl::StatusOr<TaskDescription> Describe(const TrainerTask& task,
                                         const DescribeOptions& options);

// The description as one JSON object, for programs.
std::string DescriptionJson(const TaskDescription& description);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DESCRIBE_DESCRIBE_H_
