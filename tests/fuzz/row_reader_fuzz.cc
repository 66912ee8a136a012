// Fuzzes rows for predictions, in each format that the command line reads, for
// models that may be anybody's, and the survey of a file of labelled texts.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/predict/line_source.h"
#include "client/predict/row_reader.h"
#include "client/search/labelled_file.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/corpus/labelled_rows.h"

namespace comera::client {
namespace {

void Check(bool good, const char* what) {
  if (!good) FuzzFailure(what);
}

v1::ServedModel ModelOf(FuzzInput* input) {
  v1::ServedModel model;
  switch (input->Choose(5)) {
    case 0:
      model.set_family("dlrm");
      // Only one of a hundred may be negative, else little else is tried.
      model.set_numbers(input->Choose(100) - 1);
      model.set_categories(input->Choose(100) - 1);
      break;
    case 1:
      model.add_fields("a");
      model.add_fields("b");
      model.set_label_field("gold");
      break;
    case 2:
      for (const char* field : {"a", "b", "c"}) model.add_fields(field);
      model.set_fields_joined(true);
      break;
    case 3:
      for (const char* field : {"a", "b", "c"}) model.add_fields(field);
      break;
    default:
      break;
  }
  return model;
}

RowReader::Options OptionsOf(FuzzInput* input) {
  RowReader::Options options;
  options.format = static_cast<RowFormat>(input->Choose(4));
  options.labels = input->Choose(2) == 1;
  options.no_header = input->Choose(2) == 1;
  const std::vector<std::string> columns[] = {
      {}, {"text"}, {"0"}, {"1", "-1"}, {"a", "2147483647", "-2147483648"}};
  options.columns = columns[input->Choose(5)];
  if (input->Choose(2) == 1) options.label_column = "-2";
  return options;
}

void Rows(FuzzInput input) {
  const v1::ServedModel model = ModelOf(&input);
  const RowReader::Options options = OptionsOf(&input);
  auto source = LineSource::Open(FuzzFile(input.Rest()));
  if (!source.ok()) return;
  const auto reader = RowReader::Create(*std::move(source), model, options);
  if (!reader.ok()) return;
  v1::PredictRow row;
  while (true) {
    const absl::StatusOr<bool> more = (*reader)->Next(&row);
    if (!more.ok()) {
      Check(absl::IsInvalidArgument(more.status()), "not the file's error");
      return;
    }
    if (!*more) return;
    if (options.format == RowFormat::kCriteo) {
      Check(row.numbers_size() == model.numbers() &&
                row.categories_size() == model.categories(),
            "a row of another width");
    }
    // Rows go to the model as messages, which take UTF-8 alone.
    v1::PredictRow again;
    Check(again.ParseFromString(row.SerializeAsString()), "not UTF-8");
  }
}

// The labels that are found are those which the trainer will read.
void Survey(const std::string& name, const std::string& contents) {
  const std::string path = NamedFuzzFile(name, contents);
  const auto guessed = SurveyLabelledFile(path, {});
  if (guessed.ok()) Check(!guessed->text.empty(), "no column of texts");
  const auto file = SurveyLabelledFile(path, {"text", "", "label"});
  if (!file.ok()) return;
  Check(std::is_sorted(file->labels.begin(), file->labels.end()),
        "labels in no order");
  v1::LabelledText spec;
  spec.set_text("text");
  spec.set_label("label");
  const auto rows = trainer::LabelledRows::Open(spec, path);
  if (!rows.ok()) return;
  trainer::LabelledRow row;
  while (true) {
    const absl::StatusOr<bool> more = (*rows)->Next(&row);
    if (!more.ok() || !*more) return;
    Check(
        std::binary_search(file->labels.begin(), file->labels.end(), row.label),
        "a label that was not found");
  }
}

}  // namespace
}  // namespace comera::client

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace comera::client;  // NOLINT: the entry point has no namespace.
  comera::FuzzInput input(data, size);
  switch (input.Choose(4)) {
    case 0:
      Rows(input);
      break;
    case 1:
      Survey("rows.csv", input.Rest());
      break;
    case 2:
      Survey("rows.tsv", input.Rest());
      break;
    default:
      Survey("rows.jsonl", input.Rest());
  }
  return 0;
}
