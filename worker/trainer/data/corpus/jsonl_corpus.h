#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_JSONL_CORPUS_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_JSONL_CORPUS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/corpus/corpus.h"

namespace comera::trainer {

// JSON lines (CodeSearchNet): each row's fields, joined with a newline, are one
// document. Empty lines are skipped.
//
// Read: DataLoss, with file and line, for a line that is no JSON object or
// lacks a field as a string.
class JsonlCorpus : public Corpus {
 public:
  // InvalidArgument: the spec; NotFound: a file.
  static absl::StatusOr<std::unique_ptr<JsonlCorpus>> Open(
      const v1::Jsonl& spec);

  absl::Status Read(Part part,
                    const std::function<absl::Status(const CorpusText&)>& visit)
      const override;
  const std::string& fingerprint() const override { return fingerprint_; }
  bool has_test() const override { return !test_.empty(); }
  InputFormat format() const override {
    InputFormat format;
    format.fields = fields_;
    format.fields_joined = true;
    return format;
  }

 private:
  JsonlCorpus() = default;

  std::string train_;
  std::string validation_;
  std::string test_;
  std::vector<std::string> fields_;
  std::string fingerprint_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_JSONL_CORPUS_H_
