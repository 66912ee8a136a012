#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_DOCUMENT_READER_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_DOCUMENT_READER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/data/corpus/bad_rows.h"
#include "worker/trainer/data/corpus/document_file.h"

namespace comera::trainer {

// The documents of text files, file after file. A document of a plain file is
// what stands between lines that are the separator, its line ends as they are
// in the file; without a separator it is the whole file. Of JSON lines and CSV
// it is the field of a row. A byte order mark is left out, and so are documents
// without any text.
//
// Not thread safe.
class DocumentReader {
 public:
  // The format's separator is "" or holds no line end. `bad_rows` takes the
  // documents that are passed over; null: none are.
  DocumentReader(std::vector<std::string> files, DocumentFormat format,
                 BadRows* bad_rows = nullptr);

  // Reads the next document; false after the last one. Statuses of DocumentFile
  // for what `bad_rows` does not take.
  absl::StatusOr<bool> Next(std::string* document);

 private:
  const std::vector<std::string> files_;
  const DocumentFormat format_;
  BadRows* const bad_rows_;
  size_t opened_ = 0;                   // files
  std::unique_ptr<DocumentFile> file_;  // the current one; null: none
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_DOCUMENT_READER_H_
