#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_GLUE_TSV_CORPUS_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_GLUE_TSV_CORPUS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/corpus/corpus.h"

namespace comera::trainer {

// Sentences or pairs of them from tab-separated files with a header line and no
// quoting. Columns are 0-based; a negative label column counts from the end, a
// negative column of second sentences means that there are none. Classes are
// the spec's labels in order, or the sorted labels of the training file.
//
// Read: DataLoss, with file and line, for a row whose number of columns is not
// the header's, and for a label that is no class.
class GlueTsvCorpus : public Corpus {
 public:
  // `max_classes`: more labels than this are refused; 0: 1000. InvalidArgument:
  // the spec; NotFound: a file; DataLoss: too many labels in the file.
  static absl::StatusOr<std::unique_ptr<GlueTsvCorpus>> Open(
      const v1::GlueTsv& spec, int32_t max_classes);

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
  struct Row {
    absl::string_view sentence1;
    absl::string_view sentence2;  // empty without second sentences
    absl::string_view label;
    size_t label_column = 0;  // from 1
    // Makes a DataLoss at this row.
    const std::function<absl::Status(absl::string_view)>* error = nullptr;
  };

  explicit GlueTsvCorpus(const v1::GlueTsv& spec) : spec_(spec) {}
  absl::Status ReadRows(
      const std::string& path,
      const std::function<absl::Status(const Row&)>& visit) const;
  absl::Status FindLabels(int32_t max_classes);
  absl::Status ReadHeader();

  const v1::GlueTsv spec_;
  absl::flat_hash_map<std::string, int32_t> classes_;
  InputFormat format_;
  std::string fingerprint_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_GLUE_TSV_CORPUS_H_
