// A trained dense model as others and we store it.
#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_DENSE_CHECKPOINT_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_DENSE_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/checkpoint_tensors.h"
#include "worker/trainer/model/weights/tensor_naming.h"

namespace comera::trainer {

// Tensors of a checkpoint (CheckpointTensors) by our parameter names (those of
// a dense MakeModelLayout), whichever naming the file has:
//  - ours, as ExportModel writes it: linear weights are (inputs, outputs);
//  - of encoders BERT's and RoBERTa's (encoder_naming.h);
//  - of causal language models LLaMA's and GPT-2's (decoder_naming.h).
class DenseCheckpoint {
 public:
  // `config`: the model that is to take the weights. Files far larger than it
  // are not read. Errors of CheckpointTensors::Open; InvalidArgument: it holds
  // no word embedding under a known name, or more than one.
  static absl::StatusOr<DenseCheckpoint> Open(const std::string& path,
                                              const ModelConfig& config);

  const std::string& path() const { return tensors_->path(); }
  // The folder that the files are in.
  const std::string& folder() const { return tensors_->folder(); }
  // "comera", "BERT", "RoBERTa", "LLaMA" or "GPT-2".
  const char* naming() const { return naming_->name(); }

  bool Has(const std::string& parameter) const;
  // What the file calls it, or would.
  std::string NameInFile(const std::string& parameter) const;
  // Rows of a table that the model may use; 0: the file has none.
  absl::StatusOr<int64_t> TableRows(const std::string& parameter);

  // Its values in our orientation. Tables may have more rows than `shape`, and
  // what goes with the vocabulary more entries; they are cut. NotFound: not
  // there. InvalidArgument: another shape or not of floats. DataLoss: values
  // that are not finite.
  absl::StatusOr<std::vector<float>> Get(const std::string& parameter,
                                         const std::vector<int64_t>& shape);

  // Tensors that no Get has read so far.
  std::vector<std::string> Unread() const;
  // Tensors of none of these parameters, without which the model computes
  // something else than the one that was saved.
  std::vector<std::string> NeededBesides(
      const std::vector<std::string>& parameters) const;

 private:
  DenseCheckpoint() = default;
  std::optional<TensorPlace> Find(const std::string& parameter) const;

  std::unique_ptr<CheckpointTensors> tensors_;
  std::unique_ptr<TensorNaming> naming_;
  int64_t layers_ = 0;  // how many the model has
  std::set<std::string> read_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_DENSE_CHECKPOINT_H_
