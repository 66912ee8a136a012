// Reads texts and labels from lines of JSON.
#include "worker/trainer/data/corpus/jsonl_corpus.h"

#include <set>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/corpus/json_fields.h"
#include "worker/trainer/data/source/line_reader.h"
#include "worker/trainer/data/source/read_limited.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<JsonlCorpus>> JsonlCorpus::Open(
    const v1::Jsonl& spec) {
  if (spec.train().empty()) {
    return absl::InvalidArgumentError("data.jsonl.train: missing");
  }
  if (spec.validation().empty()) {
    return absl::InvalidArgumentError("data.jsonl.validation: missing");
  }
  auto corpus = absl::WrapUnique(new JsonlCorpus);
  corpus->train_ = spec.train();
  corpus->validation_ = spec.validation();
  corpus->test_ = spec.test();
  corpus->fields_.assign(spec.fields().begin(), spec.fields().end());
  if (corpus->fields_.empty()) corpus->fields_ = {"docstring", "code"};
  const std::set<std::string> distinct(corpus->fields_.begin(),
                                       corpus->fields_.end());
  if (distinct.size() != corpus->fields_.size()) {
    return absl::InvalidArgumentError("data.jsonl.fields: one occurs twice");
  }
  ASSIGN_OR_RETURN(const std::string train, FileStamp(spec.train()));
  ASSIGN_OR_RETURN(const std::string validation, FileStamp(spec.validation()));
  corpus->fingerprint_ =
      absl::StrCat("jsonl 1\n", train, "\n", validation, "\n");
  if (corpus->has_test()) {
    ASSIGN_OR_RETURN(const std::string test, FileStamp(spec.test()));
    absl::StrAppend(&corpus->fingerprint_, "test ", test, "\n");
  }
  for (const std::string& field : corpus->fields_) {
    absl::StrAppend(&corpus->fingerprint_, field.size(), " ", field, "\n");
  }
  return corpus;
}

absl::Status JsonlCorpus::Read(
    Part part,
    const std::function<absl::Status(const CorpusText&)>& visit) const {
  const std::string& path = part == Part::kTrain        ? train_
                            : part == Part::kValidation ? validation_
                                                        : test_;
  ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader,
                   LineReader::Open(path));
  absl::string_view line;
  std::vector<std::string> values;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
    if (!more) return absl::OkStatus();
    if (line.empty()) continue;
    const absl::Status parsed = ReadJsonFields(line, fields_, &values);
    if (!parsed.ok()) return reader->Error(parsed.message());
    const std::string joined = absl::StrJoin(values, "\n");
    CorpusText text;
    text.first = joined;
    RETURN_IF_ERROR(visit(text));
  }
}

}  // namespace comera::trainer
