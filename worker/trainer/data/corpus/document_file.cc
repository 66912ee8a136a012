// Reads documents from plain text, lines of JSON, and CSV.
#include "worker/trainer/data/corpus/document_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "worker/trainer/data/corpus/json_fields.h"
#include "worker/trainer/data/source/byte_source.h"
#include "worker/trainer/data/source/csv_reader.h"
#include "worker/trainer/data/source/line_reader.h"
#include "worker/trainer/data/source/open_byte_source.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Plain text: what stands between two separators, line ends as they are.
class PlainDocuments : public DocumentFile {
 public:
  PlainDocuments(std::unique_ptr<LineReader> lines,
                 const DocumentFormat& format)
      : lines_(std::move(lines)),
        separator_(format.separator),
        limit_(format.max_document_bytes) {}

  absl::StatusOr<bool> Next(std::string* document) override {
    document->clear();
    // The document's first error; it is passed over up to its end.
    absl::Status error;
    while (!ended_) {
      absl::string_view line;
      const absl::StatusOr<bool> more = lines_->Next(&line);
      can_go_on_ = lines_->can_go_on();
      if (!more.ok()) {
        if (error.ok()) error = more.status();
        if (!can_go_on_) return error;
        continue;
      }
      if (*more && lines_->line_number() == 1) {
        absl::ConsumePrefix(&line, kByteOrderMark);
      }
      ended_ = !*more;
      if (ended_ || (!separator_.empty() && line == separator_)) {
        can_go_on_ = true;
        if (!error.ok()) return error;
        if (ended_) return !document->empty();
        return true;
      }
      if (!error.ok()) continue;
      absl::StrAppend(document, line, lines_->line_end());
      if (document->size() > limit_) {
        document->clear();
        error = lines_->Error(
            absl::StrCat("the document is longer than ", limit_,
                         " bytes; data.text.document_separator can divide it"));
      }
    }
    return false;
  }
  bool can_go_on() const override { return can_go_on_; }

 private:
  const std::unique_ptr<LineReader> lines_;
  const std::string separator_;
  const size_t limit_;
  bool ended_ = false;
  bool can_go_on_ = false;
};

// JSON lines: a field of each line that is not empty.
class JsonDocuments : public DocumentFile {
 public:
  JsonDocuments(std::unique_ptr<LineReader> lines, const DocumentFormat& format)
      : lines_(std::move(lines)), fields_({format.field}) {}

  absl::StatusOr<bool> Next(std::string* document) override {
    absl::string_view line;
    do {
      ASSIGN_OR_RETURN(const bool more, lines_->Next(&line));
      if (!more) return false;
      if (lines_->line_number() == 1) {
        absl::ConsumePrefix(&line, kByteOrderMark);
      }
    } while (line.empty());
    const absl::Status parsed = ReadJsonFields(line, fields_, &values_);
    if (!parsed.ok()) return lines_->Error(parsed.message());
    *document = std::move(values_[0]);
    // An escape can make one of a line that has none.
    if (document->find('\0') != std::string::npos) {
      return lines_->Error(absl::StrCat("field '", Printable(fields_[0]),
                                        "': holds a NUL character"));
    }
    return true;
  }
  bool can_go_on() const override { return lines_->can_go_on(); }

 private:
  const std::unique_ptr<LineReader> lines_;
  const std::vector<std::string> fields_;
  std::vector<std::string> values_;
};

// CSV: a column of each record.
class CsvDocuments : public DocumentFile {
 public:
  static absl::StatusOr<std::unique_ptr<DocumentFile>> Open(
      std::unique_ptr<CsvReader> records, const std::string& path,
      const DocumentFormat& format) {
    std::vector<std::string> header;
    ASSIGN_OR_RETURN(const bool more, records->Next(&header));
    if (!more) {
      return absl::DataLossError(absl::StrCat(
          Place(path, 1), ": empty file, a header line is needed"));
    }
    const auto found = std::find(header.begin(), header.end(), format.field);
    if (found == header.end() ||
        std::find(found + 1, header.end(), format.field) != header.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("field: ", Place(path, 1), " has ",
                       found == header.end() ? "no" : "twice the", " column '",
                       Printable(format.field), "'"));
    }
    return std::make_unique<CsvDocuments>(std::move(records), header.size(),
                                          found - header.begin());
  }
  CsvDocuments(std::unique_ptr<CsvReader> records, size_t width, size_t column)
      : records_(std::move(records)), width_(width), column_(column) {}

  absl::StatusOr<bool> Next(std::string* document) override {
    ASSIGN_OR_RETURN(const bool more, records_->Next(&cells_));
    if (!more) return false;
    if (cells_.size() != width_) {
      return records_->Error(
          absl::StrCat(cells_.size(), " columns, but the header has ", width_));
    }
    *document = std::move(cells_[column_]);
    return true;
  }
  bool can_go_on() const override { return records_->can_go_on(); }

 private:
  const std::unique_ptr<CsvReader> records_;
  const size_t width_;
  const size_t column_;
  std::vector<std::string> cells_;
};

absl::StatusOr<std::unique_ptr<DocumentFile>> OpenKind(
    DocumentFile::Kind kind, std::unique_ptr<ByteSource> source,
    const std::string& name, const DocumentFormat& format) {
  const size_t limit =
      kind == DocumentFile::Kind::kPlain
          ? format.max_document_bytes
          : std::min(format.max_document_bytes, LineReader::kMaxLineBytes);
  auto lines = std::make_unique<LineReader>(std::move(source), name, limit);
  switch (kind) {
    case DocumentFile::Kind::kPlain:
      return std::make_unique<PlainDocuments>(std::move(lines), format);
    case DocumentFile::Kind::kJsonLines:
      return std::make_unique<JsonDocuments>(std::move(lines), format);
    case DocumentFile::Kind::kCsv:
      break;
  }
  return CsvDocuments::Open(
      std::make_unique<CsvReader>(std::move(lines), name, limit), name, format);
}

}  // namespace

DocumentFile::Kind DocumentFile::KindOf(absl::string_view path) {
  if (!absl::ConsumeSuffix(&path, ".gz")) absl::ConsumeSuffix(&path, ".zst");
  if (absl::EndsWith(path, ".jsonl")) return Kind::kJsonLines;
  if (absl::EndsWith(path, ".csv")) return Kind::kCsv;
  return Kind::kPlain;
}

absl::StatusOr<std::unique_ptr<DocumentFile>> DocumentFile::Open(
    const std::string& path, const DocumentFormat& format,
    std::atomic<int64_t>* bytes_read) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source,
                   OpenByteSource(path, bytes_read));
  return OpenKind(KindOf(path), std::move(source), path, format);
}

absl::StatusOr<std::unique_ptr<DocumentFile>> DocumentFile::OpenStandardInput(
    Kind kind, const DocumentFormat& format, std::atomic<int64_t>* bytes_read) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source,
                   trainer::OpenStandardInput(bytes_read));
  return OpenKind(kind, std::move(source), "standard input", format);
}

}  // namespace comera::trainer
