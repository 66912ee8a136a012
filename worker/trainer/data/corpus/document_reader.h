#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_DOCUMENT_READER_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_DOCUMENT_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/data/source/line_reader.h"

namespace comera::trainer {

// The documents of text files, plain or gzip, file after file. A document is
// what stands in a file between lines that are the separator, its line ends as
// they are in the file; without a separator it is the whole file. A byte order
// mark is left out, and so are documents without any text.
//
// Not thread safe.
class DocumentReader {
 public:
  // A document has to fit into memory several times, and its tokens have to
  // be found within the time that a worker waits for a sign of progress.
  static constexpr size_t kMaxDocumentBytes = size_t{1} << 30;

  // `separator` is "" or holds no line end.
  DocumentReader(std::vector<std::string> files, std::string separator,
                 size_t max_document_bytes = kMaxDocumentBytes);

  // Reads the next document; false after the last one. DataLoss, with file and
  // line: a document above the limit, a NUL byte, not UTF-8, damaged gzip.
  // NotFound, InvalidArgument (not a regular file).
  absl::StatusOr<bool> Next(std::string* document);

 private:
  const std::vector<std::string> files_;
  const std::string separator_;
  const size_t max_document_bytes_;
  size_t opened_ = 0;                  // files
  std::unique_ptr<LineReader> lines_;  // of the current file; null: none
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_DOCUMENT_READER_H_
