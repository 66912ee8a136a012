#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_DOCUMENT_FILE_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_DOCUMENT_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

// How documents lie in files of text.
struct DocumentFormat {
  // A document has to fit into memory several times, and its tokens have to
  // be found within the time that a worker waits for a sign of progress.
  static constexpr size_t kMaxDocumentBytes = size_t{1} << 30;

  // Plain text: the line that separates documents, without its end; empty: a
  // file is a document.
  std::string separator;
  // JSON lines and CSV: the field or column that holds the text.
  std::string field = "text";
  size_t max_document_bytes = kMaxDocumentBytes;
};

// The documents of one file, in bounded memory but for the document itself.
//
// Not thread safe.
class DocumentFile {
 public:
  enum class Kind { kPlain, kJsonLines, kCsv };
  // What a file's name says it holds: JSON lines (.jsonl), CSV with a header
  // line (.csv), or plain text, with or without .gz or .zst behind.
  static Kind KindOf(absl::string_view path);

  // Opens a file. `bytes_read` may be null, and counts bytes of the file as
  // they are read. NotFound; InvalidArgument: not a regular file, or the header
  // of a CSV file lacks the column or has it twice; DataLoss: no text.
  static absl::StatusOr<std::unique_ptr<DocumentFile>> Open(
      const std::string& path, const DocumentFormat& format,
      std::atomic<int64_t>* bytes_read = nullptr);
  // The same for the process's standard input.
  static absl::StatusOr<std::unique_ptr<DocumentFile>> OpenStandardInput(
      Kind kind, const DocumentFormat& format,
      std::atomic<int64_t>* bytes_read = nullptr);

  virtual ~DocumentFile() = default;

  // Reads the next document, which may be empty; false at the end of the file.
  // DataLoss, with file and line: a row that is malformed or lacks the field as
  // a string, a document above the limit, a NUL byte, not UTF-8, damaged
  // compression.
  virtual absl::StatusOr<bool> Next(std::string* document) = 0;

  // Whether the error that Next returned last is of one document, so that Next
  // may be called again and gives the one behind it.
  virtual bool can_go_on() const = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_DOCUMENT_FILE_H_
