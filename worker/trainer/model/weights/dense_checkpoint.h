// A trained dense encoder as others and we store it.
#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_DENSE_CHECKPOINT_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_DENSE_CHECKPOINT_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/safetensors.h"

namespace comera::trainer {

// Tensors of one safetensors file by our parameter names (those of a dense
// MakeModelLayout), whichever of two namings the file has:
//  - ours, as ExportModel writes it: linear weights are (inputs, outputs);
//  - BERT's and RoBERTa's, as the transformers library writes them: linear
//    weights are (outputs, inputs), a prefix such as "bert." may come before
//    the encoder's names, LayerNorms have weight and bias or gamma and beta, a
//    masked-LM projection that shares the word embedding is left out.
// RoBERTa's position table starts with two rows that no token uses.
class DenseCheckpoint {
 public:
  // Errors of Safetensors::Read; InvalidArgument: it holds no word embedding
  // under a known name, or more than one.
  static absl::StatusOr<DenseCheckpoint> Open(const std::string& path);

  const std::string& path() const { return path_; }
  // "comera", "BERT" or "RoBERTa".
  const char* naming() const;

  bool Has(const std::string& parameter) const;
  // What the file calls it, or would.
  std::string NameInFile(const std::string& parameter) const;
  // Rows of a table that the model may use; 0: the file has none.
  int64_t TableRows(const std::string& parameter) const;

  // Its values in our orientation. Tables may have more rows than `shape`, and
  // what goes with the vocabulary more entries; they are cut. NotFound: not
  // there. InvalidArgument: another shape or not of floats. DataLoss: values
  // that are not finite.
  absl::StatusOr<std::vector<float>> Get(const std::string& parameter,
                                         const std::vector<int64_t>& shape);

  // Tensors that no Get has read so far.
  std::vector<std::string> Unread() const;

 private:
  struct Candidate {
    std::string name;
    bool transposed;
  };

  DenseCheckpoint() = default;
  std::vector<Candidate> Candidates(const std::string& parameter) const;
  const Candidate* Find(const std::vector<Candidate>& candidates) const;

  std::string path_;
  Safetensors file_;
  bool ours_ = false;
  std::string prefix_;          // theirs
  int64_t first_position_ = 0;  // row of token 0
  std::set<std::string> read_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_DENSE_CHECKPOINT_H_
