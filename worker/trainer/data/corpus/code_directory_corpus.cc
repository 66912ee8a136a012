// Reads the source files below a directory as texts.
#include "worker/trainer/data/corpus/code_directory_corpus.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/random/counter_random.h"
#include "worker/trainer/data/random/text_hash.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr double kDefaultValidationFraction = 0.05;
constexpr int64_t kDefaultMaxBytes = 64 << 20;
constexpr int64_t kDefaultMaxFileBytes = 1 << 20;
constexpr int64_t kLargestFileBytes = 256 << 20;

double SplitPoint(const FoundFile& file) {
  return trainer::SplitPoint(HashText(file.relative_path));
}

// All matches of all roots, each file once, in an order shuffled by `seed`.
absl::StatusOr<std::vector<FoundFile>> ListFiles(const v1::CodeDirectory& spec,
                                                 uint64_t seed,
                                                 int64_t max_file_bytes) {
  const std::vector<std::string> globs(spec.globs().begin(),
                                       spec.globs().end());
  std::vector<FoundFile> files;
  absl::flat_hash_set<std::string> seen;  // roots may overlap
  for (std::string root : spec.roots()) {
    while (root.size() > 1 && root.back() == '/') root.pop_back();
    ASSIGN_OR_RETURN(std::vector<FoundFile> found, FindFiles(root, globs));
    for (FoundFile& file : found) {
      if (file.size > 0 && file.size <= max_file_bytes &&
          seen.insert(file.path).second) {
        files.push_back(std::move(file));
      }
    }
  }
  const auto key = [seed](const FoundFile& file) {
    return MixBits(MixBits(seed ^ MixBits(static_cast<uint64_t>(
                                      RandomStream::kFileOrder))) ^
                   HashText(file.relative_path));
  };
  std::sort(files.begin(), files.end(),
            [&key](const FoundFile& a, const FoundFile& b) {
              return std::make_tuple(key(a), std::cref(a.path)) <
                     std::make_tuple(key(b), std::cref(b.path));
            });
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CodeDirectoryCorpus>> CodeDirectoryCorpus::Open(
    const v1::CodeDirectory& spec, uint64_t seed,
    std::function<void(const std::string&)> report) {
  const double fraction = spec.has_validation_fraction()
                              ? spec.validation_fraction()
                              : kDefaultValidationFraction;
  const int64_t max_bytes = !spec.has_max_bytes() ? kDefaultMaxBytes
                            : spec.max_bytes() == 0
                                ? std::numeric_limits<int64_t>::max()
                                : spec.max_bytes();
  const int64_t max_file_bytes =
      !spec.has_max_file_bytes()   ? kDefaultMaxFileBytes
      : spec.max_file_bytes() == 0 ? kLargestFileBytes
                                   : spec.max_file_bytes();
  if (spec.roots().empty()) {
    return absl::InvalidArgumentError("data.code_directory.roots: empty");
  }
  if (!(fraction > 0 && fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.code_directory.validation_fraction: ", fraction,
                     " is not between 0 and 1"));
  }
  const double test_fraction = spec.test_fraction();
  if (!(test_fraction >= 0 && fraction + test_fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.code_directory.test_fraction: ", test_fraction,
                     " is not between 0 and what validation_fraction leaves"));
  }
  if (max_bytes < 0) {
    return absl::InvalidArgumentError(
        "data.code_directory.max_bytes: negative");
  }
  if (max_file_bytes < 0 || max_file_bytes > kLargestFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.code_directory.max_file_bytes: not in 0 to ", kLargestFileBytes));
  }
  ASSIGN_OR_RETURN(std::vector<FoundFile> files,
                   ListFiles(spec, seed, max_file_bytes));
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "data.code_directory: no file of 1 to ", max_file_bytes,
        " bytes below ", PrintablePath(spec.roots(0)),
        spec.roots_size() > 1 ? " and the other roots" : "", " matches globs"));
  }

  auto corpus = absl::WrapUnique(new CodeDirectoryCorpus);
  corpus->report_ = std::move(report);
  int64_t bytes = 0;
  for (FoundFile& file : files) {
    bytes += file.size;
    if (bytes > max_bytes) break;
    const double split = SplitPoint(file);
    (split < fraction                   ? corpus->validation_
     : split < fraction + test_fraction ? corpus->test_
                                        : corpus->train_)
        .push_back(std::move(file));
  }
  RETURN_IF_ERROR(corpus->FillParts(test_fraction > 0, max_bytes));
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    if (part == Part::kTest && !corpus->has_test()) break;
    absl::StrAppend(&corpus->fingerprint_, "part\n");
    for (const FoundFile& file : corpus->files(part)) {
      absl::StrAppend(&corpus->fingerprint_, file.path, "|", file.size, "|",
                      file.modified_ns, "\n");
    }
  }
  return corpus;
}

absl::Status CodeDirectoryCorpus::FillParts(bool needs_test,
                                            int64_t max_bytes) {
  const size_t files = train_.size() + validation_.size() + test_.size();
  const size_t parts = needs_test ? 3 : 2;
  if (files < parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.code_directory: ", files,
                     " of the files fit into max_bytes, ", max_bytes, "; ",
                     needs_test ? "training, validation and test"
                                : "training and validation",
                     " need one each"));
  }
  const auto by_split = [](const FoundFile& a, const FoundFile& b) {
    return SplitPoint(a) < SplitPoint(b);
  };
  // Split points grow from validation over test to training.
  const auto move_lowest = [&](std::vector<FoundFile>* from,
                               std::vector<FoundFile>* to) {
    const auto moved = std::min_element(from->begin(), from->end(), by_split);
    to->push_back(std::move(*moved));
    from->erase(moved);
  };
  const auto move_highest = [&](std::vector<FoundFile>* from,
                                std::vector<FoundFile>* to) {
    const auto moved = std::max_element(from->begin(), from->end(), by_split);
    to->push_back(std::move(*moved));
    from->erase(moved);
  };
  if (validation_.empty()) {
    move_lowest(test_.size() > 1 || train_.empty() ? &test_ : &train_,
                &validation_);
  }
  if (train_.empty()) {
    move_highest(test_.size() > 1 ? &test_ : &validation_, &train_);
  }
  if (needs_test && test_.empty()) {
    if (train_.size() > 1) {
      move_lowest(&train_, &test_);
    } else {
      move_highest(&validation_, &test_);
    }
  }
  return absl::OkStatus();
}

absl::Status CodeDirectoryCorpus::Read(
    Part part,
    const std::function<absl::Status(const CorpusText&)>& visit) const {
  int64_t read = 0, bytes = 0, binary = 0, not_utf8 = 0, unreadable = 0;
  for (const FoundFile& file : files(part)) {
    // Nothing but what was listed: not a link put there since, not more bytes.
    absl::StatusOr<std::string> contents =
        ReadLimited(file.path, file.size, /*follow=*/false);
    if (!contents.ok()) {
      ++unreadable;
      continue;
    }
    if (contents->find('\0') != std::string::npos) {
      ++binary;
      continue;
    }
    if (!IsValidUtf8(*contents)) {
      ++not_utf8;
      continue;
    }
    ++read;
    bytes += static_cast<int64_t>(contents->size());
    CorpusText text;
    text.first = *contents;
    RETURN_IF_ERROR(visit(text));
  }
  if (report_) {
    report_(absl::StrCat(part == Part::kTrain        ? "training"
                         : part == Part::kValidation ? "validation"
                                                     : "test",
                         " files: ", read, " read (", bytes, " bytes), ",
                         binary, " binary, ", not_utf8, " not UTF-8, ",
                         unreadable, " unreadable"));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
