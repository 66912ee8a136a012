#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_CODE_DIRECTORY_CORPUS_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_CODE_DIRECTORY_CORPUS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/source/file_walk.h"

namespace comera::trainer {

// Source files below folders, each one document. Which files: every match, in
// an order shuffled by the seed, until max_bytes are full. A file is held out
// for validation by a hash of its path below the root, whatever the seed and
// the other files. Files that are binary (a NUL byte), not UTF-8, or removed
// since they were listed are skipped and counted.
class CodeDirectoryCorpus : public Corpus {
 public:
  // Lists the files. NotFound: a root, or no file matches. InvalidArgument: the
  // spec, or fewer files than parts. `report` gets one line
  // on what each reading found.
  static absl::StatusOr<std::unique_ptr<CodeDirectoryCorpus>> Open(
      const v1::CodeDirectory& spec, uint64_t seed,
      std::function<void(const std::string&)> report);

  absl::Status Read(Part part,
                    const std::function<absl::Status(const CorpusText&)>& visit)
      const override;
  const std::string& fingerprint() const override { return fingerprint_; }

  bool has_test() const override { return !test_.empty(); }

  // In reading order.
  const std::vector<FoundFile>& files(Part part) const {
    return part == Part::kTrain        ? train_
           : part == Part::kValidation ? validation_
                                       : test_;
  }

 private:
  CodeDirectoryCorpus() = default;
  // Gives every part a file where there are few: the one whose split point is
  // nearest moves.
  absl::Status FillParts(bool needs_test, int64_t max_bytes);

  std::function<void(const std::string&)> report_;
  std::vector<FoundFile> train_;
  std::vector<FoundFile> validation_;
  std::vector<FoundFile> test_;
  std::string fingerprint_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_CODE_DIRECTORY_CORPUS_H_
