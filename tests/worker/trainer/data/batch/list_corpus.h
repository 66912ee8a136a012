#ifndef COMERA_TESTS_WORKER_TRAINER_DATA_BATCH_LIST_CORPUS_H_
#define COMERA_TESTS_WORKER_TRAINER_DATA_BATCH_LIST_CORPUS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "worker/trainer/data/corpus/corpus.h"

namespace comera::trainer {

// The same texts in training and validation; a text with "|" is a pair of class
// 7, others are documents. There is a test part if it has texts.
class ListCorpus : public Corpus {
 public:
  explicit ListCorpus(std::vector<std::string> texts,
                      std::vector<std::string> test = {})
      : texts_(std::move(texts)), test_(std::move(test)) {}

  absl::Status Read(Part part,
                    const std::function<absl::Status(const CorpusText&)>& visit)
      const override {
    for (const std::string& text : part == Part::kTest ? test_ : texts_) {
      const std::vector<std::string> parts = absl::StrSplit(text, '|');
      CorpusText out;
      out.first = parts[0];
      if (parts.size() == 2) {
        out.second = parts[1];
        out.is_pair = true;
        out.label = 7;
      }
      RETURN_IF_ERROR(visit(out));
    }
    return absl::OkStatus();
  }
  const std::string& fingerprint() const override { return fingerprint_; }
  bool has_test() const override { return !test_.empty(); }

 private:
  const std::vector<std::string> texts_;
  const std::vector<std::string> test_;
  const std::string fingerprint_;
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_DATA_BATCH_LIST_CORPUS_H_
