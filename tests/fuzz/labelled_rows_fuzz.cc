// Fuzzes labelled texts in CSV, TSV and JSON lines, plain or gzip, whose errors
// must not quote them: whoever submits a job reads the errors, and may not be
// allowed to read the file.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/corpus/labelled_rows.h"
#include "worker/trainer/data/corpus/labelled_text_corpus.h"
#include "worker/trainer/data/source/csv_reader.h"

namespace comera::trainer {
namespace {

constexpr const char* kNames[] = {"rows.csv", "rows.tsv", "rows.jsonl",
                                  "rows.csv.gz"};
// What files hold that nobody should see.
constexpr char kSecret[] = "hunter";

using Records = std::vector<std::vector<std::string>>;

void Check(bool good, const char* what) {
  if (!good) FuzzFailure(what);
}

void CheckError(const absl::Status& status) {
  Check(status.message().find(kSecret) == absl::string_view::npos,
        "an error that quotes the file");
}

// Returns whether the whole file was read.
bool ReadCsv(const std::string& contents, Records* records) {
  const auto reader = CsvReader::Open(NamedFuzzFile("plain.csv", contents));
  if (!reader.ok()) return false;
  std::vector<std::string> fields;
  while (true) {
    const absl::StatusOr<bool> more = (*reader)->Next(&fields);
    if (!more.ok()) CheckError(more.status());
    if (!more.ok() || !*more) return more.ok();
    Check(!fields.empty(), "a record without a field");
    records->push_back(fields);
  }
}

std::string WriteCsv(const Records& records) {
  std::string text;
  for (const std::vector<std::string>& fields : records) {
    for (size_t i = 0; i < fields.size(); ++i) {
      text += i == 0 ? "\"" : ",\"";
      for (const char c : fields[i]) text += c == '"' ? "\"\"" : std::string{c};
      text += '"';
    }
    text += '\n';
  }
  return text;
}

// What was read is the same when it is written and read again.
void Csv(const std::string& contents) {
  Records records, again;
  if (!ReadCsv(contents, &records)) return;
  const std::string written = WriteCsv(records);
  // Before a line's end it would be taken for a part of it.
  if (written.find('\r') != std::string::npos) return;
  Check(ReadCsv(written, &again) && again == records,
        "records that are others when read again");
}

void Rows(const char* name, bool pairs, const std::string& contents) {
  v1::LabelledText spec;
  spec.set_text("text");
  if (pairs) spec.set_second_text("text2");
  spec.set_label("label");
  spec.set_validation_fraction(0.5);
  spec.set_train(NamedFuzzFile(name, contents));
  const auto rows = LabelledRows::Open(spec, spec.train());
  if (!rows.ok()) return CheckError(rows.status());
  LabelledRow row;
  while (true) {
    const absl::StatusOr<bool> more = (*rows)->Next(&row);
    if (!more.ok()) return CheckError(more.status());
    if (!*more) break;
    Check(!row.label.empty(), "a row without a label");
    Check(pairs || row.second_text.empty(), "a text of no column");
  }
  const auto corpus = LabelledTextCorpus::Open(spec, 0);
  if (!corpus.ok()) return CheckError(corpus.status());
  const int32_t classes = (*corpus)->classes();
  const absl::Status read =
      (*corpus)->Read(Corpus::Part::kTrain, [&](const CorpusText& text) {
        Check(text.label >= 0 && text.label < classes, "a label of no class");
        return absl::OkStatus();
      });
  Check(read.ok(), "rows that can be read once only");
}

}  // namespace
}  // namespace comera::trainer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace comera::trainer;  // NOLINT: the entry point has no namespace.
  comera::FuzzInput input(data, size);
  const int kind = input.Choose(5);
  if (kind == 4) {
    Csv(input.Rest());
  } else {
    const bool pairs = input.Choose(2) == 1;
    Rows(kNames[kind], pairs, input.Rest());
  }
  return 0;
}
