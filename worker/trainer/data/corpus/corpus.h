#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_CORPUS_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_CORPUS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/corpus/input_format.h"

namespace comera::trainer {

// One text of a corpus: a sentence or a pair of them with its class, or a
// document.
struct CorpusText {
  absl::string_view first;
  absl::string_view second;
  bool is_pair = false;
  // `first` is a sentence; a text that is neither is a document.
  bool is_single = false;
  int32_t label = 0;
};

// The raw texts of a job's data source, split into parts. The order of texts is
// fixed by the spec and the files.
class Corpus {
 public:
  enum class Part { kTrain, kValidation, kTest };

  virtual ~Corpus() = default;

  // Calls `visit` for each text of a part; stops at its first error. The test
  // part may be read only if there is one.
  // NotFound, InvalidArgument, DataLoss as OpenTrainingData.
  virtual absl::Status Read(
      Part part,
      const std::function<absl::Status(const CorpusText&)>& visit) const = 0;

  // Two corpora with equal fingerprints hold the same texts: everything that
  // they depend on, files by path, size and time of change.
  virtual const std::string& fingerprint() const = 0;

  // Number of classes; 0 where texts have no label.
  virtual int32_t classes() const { return 0; }

  virtual bool has_test() const { return false; }

  // How its rows lie in its files.
  virtual InputFormat format() const { return {}; }
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_CORPUS_H_
