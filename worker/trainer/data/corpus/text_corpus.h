#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_TEXT_CORPUS_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_TEXT_CORPUS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/corpus/bad_rows.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/corpus/document_file.h"

namespace comera::trainer {

// Documents of text files (document_reader.h), in the order in which the
// specification names the files, those of a pattern sorted. Without
// validation files, the last documents are held out, or, if there is one alone,
// the end of its text.
//
// Read: DataLoss, with file and line, for what DocumentReader refuses and
// max_bad_rows does not allow; how many rows were skipped is told when a part
// has been read.
//
// Not thread safe.
class TextCorpus : public Corpus {
 public:
  // Lists the files; a pattern has one of the characters "*?[", see
  // file_pattern.h. A file that is named twice in a list counts once.
  // InvalidArgument: the spec, or a file is in two lists. NotFound: a file, or
  // no file matches a pattern. `report` is called while documents are counted
  // and when rows were skipped; may be empty.
  static absl::StatusOr<std::unique_ptr<TextCorpus>> Open(
      const v1::Text& spec, std::function<void(const std::string&)> report);

  absl::Status Read(Part part,
                    const std::function<absl::Status(const CorpusText&)>& visit)
      const override;
  const std::string& fingerprint() const override { return fingerprint_; }
  bool has_test() const override { return !test_.empty(); }

  // In reading order; those of the training part are also the validation
  // part's if that has none.
  const std::vector<std::string>& files(Part part) const {
    return part == Part::kTest                           ? test_
           : part == Part::kTrain || validation_.empty() ? train_
                                                         : validation_;
  }

 private:
  explicit TextCorpus(int64_t max_bad_rows) : bad_rows_(max_bad_rows) {}
  // Resolves the lists of files.
  absl::Status FindFiles(const v1::Text& spec);
  absl::Status Stamp();
  // Tells how many rows were skipped, if that is news.
  void ReportSkipped() const;
  // Documents of the training files, which are read once for it.
  absl::StatusOr<int64_t> CountDocuments() const;
  // Reads a part of the training files that are split.
  absl::Status ReadSplit(
      bool held_out,
      const std::function<absl::Status(const CorpusText&)>& visit) const;

  std::vector<std::string> train_;
  std::vector<std::string> validation_;
  std::vector<std::string> test_;
  double validation_fraction_ = 0;
  DocumentFormat format_;
  mutable BadRows bad_rows_;
  mutable int64_t reported_bad_rows_ = 0;
  std::function<void(const std::string&)> report_;
  std::string fingerprint_;
  mutable std::optional<int64_t> documents_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_TEXT_CORPUS_H_
