#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_LABELLED_TEXT_CORPUS_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_LABELLED_TEXT_CORPUS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/corpus/labelled_rows.h"

namespace comera::trainer {

// Texts, or pairs of texts, with a label each (labelled_rows.h). Classes are
// the spec's labels in order, or the sorted labels of the training file.
// Without a validation file, the training rows are split by a hash of their
// texts, so that equal rows stay on one side.
//
// Read: DataLoss, with file and line, for malformed rows and for a label that
// is no class.
class LabelledTextCorpus : public Corpus {
 public:
  // The defaults of `spec` are filled in. `classes`: the number that the model
  // has; 0: as many as there are labels. InvalidArgument: the spec, or the
  // labels are not `classes`; NotFound: a file; DataLoss: malformed rows, or
  // more than 1000 labels.
  static absl::StatusOr<std::unique_ptr<LabelledTextCorpus>> Open(
      const v1::LabelledText& spec, int32_t classes);

  absl::Status Read(Part part,
                    const std::function<absl::Status(const CorpusText&)>& visit)
      const override;
  const std::string& fingerprint() const override { return fingerprint_; }
  int32_t classes() const override {
    return static_cast<int32_t>(classes_.size());
  }
  bool has_test() const override { return !spec_.test().empty(); }
  InputFormat format() const override { return format_; }

 private:
  explicit LabelledTextCorpus(const v1::LabelledText& spec) : spec_(spec) {}
  absl::Status Stamp();
  absl::Status FindClasses(int32_t classes);
  const std::string& PathOf(Part part) const;
  // Whether a row of the training file belongs to the part.
  bool IsOf(Part part, const LabelledRow& row) const;

  const v1::LabelledText spec_;
  absl::flat_hash_map<std::string, int32_t> classes_;
  InputFormat format_;
  std::string fingerprint_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_LABELLED_TEXT_CORPUS_H_
