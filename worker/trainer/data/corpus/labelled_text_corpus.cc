// Finds the classes of labelled texts and splits them into parts.
#include "worker/trainer/data/corpus/labelled_text_corpus.h"

#include <set>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/random/text_hash.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr size_t kMaxFoundLabels = 1000;

absl::Status CheckSpec(const v1::LabelledText& spec) {
  const auto bad = [](const char* field, const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.labelled_text.", field, ": ", what));
  };
  if (spec.train().empty()) return bad("train", "missing");
  if (spec.text().empty()) return bad("text", "missing");
  if (spec.label().empty()) return bad("label", "missing");
  if (spec.validation().empty() &&
      !(spec.validation_fraction() > 0 && spec.validation_fraction() < 1)) {
    return bad("validation_fraction", "not between 0 and 1");
  }
  return absl::OkStatus();
}

// The labels of a file, sorted.
absl::StatusOr<std::vector<std::string>> FindLabels(
    const v1::LabelledText& spec) {
  ASSIGN_OR_RETURN(const std::unique_ptr<LabelledRows> rows,
                   LabelledRows::Open(spec, spec.train()));
  std::set<std::string> found;
  LabelledRow row;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows->Next(&row));
    if (!more) break;
    found.insert(row.label);
    if (found.size() > kMaxFoundLabels) {
      return rows->Error(absl::StrCat(
          "'", Printable(spec.label()), "' has more than ", kMaxFoundLabels,
          " labels by here; data.labelled_text.labels can name more"));
    }
  }
  return std::vector<std::string>(found.begin(), found.end());
}

}  // namespace

absl::StatusOr<std::unique_ptr<LabelledTextCorpus>> LabelledTextCorpus::Open(
    const v1::LabelledText& spec, int32_t classes) {
  RETURN_IF_ERROR(CheckSpec(spec));
  auto corpus = absl::WrapUnique(new LabelledTextCorpus(spec));
  RETURN_IF_ERROR(corpus->Stamp());
  RETURN_IF_ERROR(corpus->FindClasses(classes));
  corpus->format_.fields = {spec.text()};
  if (!spec.second_text().empty()) {
    corpus->format_.fields.push_back(spec.second_text());
  }
  corpus->format_.label_field = spec.label();
  return corpus;
}

absl::Status LabelledTextCorpus::Stamp() {
  fingerprint_ = "labelled text 1\n";
  for (const std::string& path :
       {spec_.train(), spec_.validation(), spec_.test()}) {
    std::string stamp = "none";
    if (!path.empty()) {
      ASSIGN_OR_RETURN(stamp, FileStamp(path));
    }
    absl::StrAppend(&fingerprint_, stamp, "\n");
  }
  for (const std::string& name :
       {spec_.text(), spec_.second_text(), spec_.label()}) {
    absl::StrAppend(&fingerprint_, name.size(), " ", name, "\n");
  }
  absl::StrAppend(&fingerprint_, spec_.validation_fraction(), "\n");
  return absl::OkStatus();
}

absl::Status LabelledTextCorpus::FindClasses(int32_t classes) {
  std::vector<std::string> labels(spec_.labels().begin(), spec_.labels().end());
  const bool found = labels.empty();
  if (found) {
    ASSIGN_OR_RETURN(labels, FindLabels(spec_));
    if (labels.size() < 2) {
      return absl::DataLossError(absl::StrCat(
          PrintablePath(spec_.train()), ": ", labels.size(), " labels in '",
          Printable(spec_.label()), "', at least 2 are needed"));
    }
  }
  const auto count = static_cast<int32_t>(labels.size());
  if (classes != 0 && classes != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.classes: ", classes, ", but ",
        found ? PrintablePath(spec_.train()) : "data.labelled_text.labels",
        " has ", count, " labels"));
  }
  for (const std::string& label : labels) {
    if (!classes_.emplace(label, static_cast<int32_t>(classes_.size()))
             .second) {
      return absl::InvalidArgumentError(
          "data.labelled_text.labels: one occurs twice");
    }
    absl::StrAppend(&fingerprint_, label.size(), " ", label, "\n");
  }
  format_.labels = std::move(labels);
  return absl::OkStatus();
}

const std::string& LabelledTextCorpus::PathOf(Part part) const {
  if (part == Part::kTest) return spec_.test();
  return part == Part::kValidation && !spec_.validation().empty()
             ? spec_.validation()
             : spec_.train();
}

bool LabelledTextCorpus::IsOf(Part part, const LabelledRow& row) const {
  if (part == Part::kTest || !spec_.validation().empty()) return true;
  const uint64_t hash = HashText(absl::StrCat(row.text, "\n", row.second_text));
  const bool held_out = SplitPoint(hash) < spec_.validation_fraction();
  return held_out == (part == Part::kValidation);
}

absl::Status LabelledTextCorpus::Read(
    Part part,
    const std::function<absl::Status(const CorpusText&)>& visit) const {
  ASSIGN_OR_RETURN(const std::unique_ptr<LabelledRows> rows,
                   LabelledRows::Open(spec_, PathOf(part)));
  LabelledRow row;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows->Next(&row));
    if (!more) return absl::OkStatus();
    const auto found = classes_.find(row.label);
    if (found == classes_.end()) {
      return rows->Error(absl::StrCat("'", Printable(spec_.label()),
                                      "' is none of the ", classes_.size(),
                                      " labels"));
    }
    if (!IsOf(part, row)) continue;
    CorpusText text;
    text.first = row.text;
    text.second = row.second_text;
    text.is_pair = !spec_.second_text().empty();
    text.is_single = !text.is_pair;
    text.label = found->second;
    RETURN_IF_ERROR(visit(text));
  }
}

}  // namespace comera::trainer
