// Finds out a data file's format, rows, labels and lengths.
#include "server/dataset/file_description.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace comera::server {
namespace {

using Format = v1::FileDescription;
using Json = nlohmann::json;

constexpr size_t kMaxColumns = 256;
constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxLabels = 10000;
constexpr int kShownLabels = 100;
constexpr size_t kCriteoColumns = 40;
constexpr int kBuckets = 24;

// Lines of a file, unpacked if it is gzip.
class LineSource {
 public:
  LineSource(const std::string& path, const DescribeLimits& limits)
      : limits_(limits) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) file_ = gzdopen(fd, "rb");
    if (fd >= 0 && file_ == nullptr) close(fd);
    if (file_ == nullptr) {
      Stop("cannot be opened");
      return;
    }
    gzbuffer(file_, 1 << 18);
    Fill();
    // Known once something was read.
    gzip_ = gzdirect(file_) == 0;
  }
  ~LineSource() {
    if (file_ != nullptr) gzclose(file_);
  }

  // What is read so far and not yet taken.
  std::string_view peek() const {
    return std::string_view(buffer_).substr(at_);
  }

  // False at the end. Without the newline; good until the next call.
  bool Next(std::string_view* line) {
    while (true) {
      const size_t end = buffer_.find('\n', std::max(at_, searched_));
      if (end != std::string::npos) {
        *line = std::string_view(buffer_).substr(at_, end - at_);
        at_ = end + 1;
        searched_ = at_;
        return true;
      }
      searched_ = buffer_.size();
      if (static_cast<int64_t>(buffer_.size() - at_) > limits_.max_line_bytes) {
        Stop(absl::StrCat("a line is longer than ", limits_.max_line_bytes,
                          " bytes"));
        return false;
      }
      if (!Fill()) break;
    }
    // A cut line is none.
    if (at_ == buffer_.size() || truncated_ || !problem_.empty()) return false;
    *line = std::string_view(buffer_).substr(at_);
    at_ = searched_ = buffer_.size();
    return true;
  }

  bool gzip() const { return gzip_; }
  bool truncated() const { return truncated_; }
  const std::string& problem() const { return problem_; }

 private:
  void Stop(std::string problem) {
    problem_ = std::move(problem);
    ended_ = true;
  }

  bool Fill() {
    if (ended_) return false;
    buffer_.erase(0, at_);
    searched_ -= std::min(searched_, at_);
    at_ = 0;
    const size_t size = buffer_.size();
    buffer_.resize(size + (1 << 18));
    const int count = gzread(file_, &buffer_[size], 1 << 18);
    buffer_.resize(size + std::max(count, 0));
    read_ += std::max(count, 0);
    if (count <= 0) {
      int error = Z_OK;
      const char* text = gzerror(file_, &error);
      ended_ = true;
      if (error != Z_OK) Stop(absl::StrCat("damaged: ", text));
      return false;
    }
    if (read_ > limits_.max_bytes) {
      truncated_ = true;
      ended_ = true;
    }
    return true;
  }

  const DescribeLimits limits_;
  gzFile file_ = nullptr;
  std::string buffer_;
  size_t at_ = 0;
  size_t searched_ = 0;
  int64_t read_ = 0;
  bool gzip_ = false;
  bool ended_ = false;
  bool truncated_ = false;
  std::string problem_;
};

std::vector<std::string_view> SplitTabs(std::string_view line) {
  std::vector<std::string_view> columns;
  if (absl::EndsWith(absl::string_view(line.data(), line.size()), "\r")) {
    line.remove_suffix(1);
  }
  while (true) {
    const size_t tab = line.find('\t');
    columns.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return columns;
    line.remove_prefix(tab + 1);
  }
}

int64_t CountWords(std::string_view text) {
  int64_t words = 0;
  bool inside = false;
  for (char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!blank && !inside) ++words;
    inside = !blank;
  }
  return words;
}

// The beginning of `text`; bytes that are not UTF-8 are replaced, for protobuf
// refuses them.
std::string Shown(std::string_view text) {
  const std::string quoted =
      Json(text.substr(0, kMaxNameBytes))
          .dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

// Adds up the rows of one file.
class Tally {
 public:
  Tally(std::optional<int64_t> label_column, v1::FileDescription* out)
      : label_column_(label_column), out_(out) {}

  void AddTsv(std::string_view line) {
    const auto columns = SplitTabs(line);
    if (columns.size() != width_) ++odd_;
    AddLabel(columns);
    AddLength(CountWords(line));
  }

  void AddJson(std::string_view line) {
    const Json row = Json::parse(line.begin(), line.end(), nullptr, false);
    if (!row.is_object()) {
      ++odd_;
      return;
    }
    int64_t words = 0;
    for (const auto& [key, value] : row.items()) {
      if (value.is_string()) {
        words += CountWords(value.get_ref<const std::string&>());
      }
    }
    AddLength(words);
    const auto label = row.find("label");
    if (label == row.end() || label->is_structured()) return;
    Count(label->is_string() ? label->get<std::string>() : label->dump());
  }

  void AddLabel(const std::vector<std::string_view>& columns) {
    const int64_t width = static_cast<int64_t>(columns.size());
    int64_t index =
        label_column_.value_or(out_->format() == Format::CRITEO ? 0 : -1);
    if (index < 0) index += width;
    if (index < 0 || index >= width) return;
    Count(std::string(columns[index]));
  }

  void AddLength(int64_t words) {
    int bucket = 0;
    while (bucket + 1 < kBuckets && (int64_t{1} << bucket) < words) ++bucket;
    ++lengths_[bucket];
  }

  void set_width(size_t width) { width_ = width; }
  void CountOdd(size_t width) { odd_ += width != width_; }

  void Finish(int64_t rows) {
    out_->set_rows(rows);
    out_->set_odd_rows(odd_);
    // A column with as many labels as rows holds none.
    std::vector<std::pair<int64_t, std::string>> labels;
    if (!too_many_) {
      for (const auto& [label, count] : labels_) {
        labels.emplace_back(-count, label);
      }
    }
    std::sort(labels.begin(), labels.end());
    for (const auto& [count, label] : labels) {
      if (out_->labels_size() == kShownLabels) break;
      v1::LabelCount* shown = out_->add_labels();
      shown->set_label(Shown(label));
      shown->set_rows(-count);
    }
    for (const auto& [bucket, count] : lengths_) {
      v1::LengthBucket* length = out_->add_lengths();
      length->set_at_most(int64_t{1} << bucket);
      length->set_rows(count);
    }
  }

 private:
  void Count(const std::string& label) {
    const auto known = labels_.find(label);
    if (known != labels_.end()) {
      ++known->second;
    } else if (labels_.size() < kMaxLabels && label.size() <= kMaxNameBytes) {
      labels_[label] = 1;
    } else {
      too_many_ = true;
    }
  }

  const std::optional<int64_t> label_column_;
  v1::FileDescription* const out_;
  size_t width_ = 0;
  int64_t odd_ = 0;
  bool too_many_ = false;
  std::map<std::string, int64_t> labels_;
  std::map<int, int64_t> lengths_;
};

Format::Format Guess(const std::string& name, std::string_view beginning) {
  if (absl::EndsWith(name, ".safetensors")) return Format::SAFETENSORS;
  if (beginning.empty() || beginning.find('\0') != std::string_view::npos) {
    return Format::OTHER;
  }
  const std::string_view line = beginning.substr(0, beginning.find('\n'));
  if (line.substr(0, 1) == "{" && Json::accept(line.begin(), line.end())) {
    return Format::JSONL;
  }
  const auto columns = SplitTabs(line);
  if (columns.size() == kCriteoColumns &&
      (columns[0] == "0" || columns[0] == "1")) {
    return Format::CRITEO;
  }
  return columns.size() > 1 ? Format::TSV : Format::TEXT;
}

void ReadHeader(std::string_view line, v1::FileDescription* out, Tally* tally) {
  if (out->format() == Format::JSONL) {
    const Json row = Json::parse(line.begin(), line.end(), nullptr, false);
    if (!row.is_object()) return;
    for (const auto& [key, value] : row.items()) {
      if (out->columns_size() == static_cast<int>(kMaxColumns)) return;
      out->add_columns(Shown(key));
    }
    return;
  }
  const auto columns = SplitTabs(line);
  tally->set_width(columns.size());
  if (out->format() != Format::TSV) return;
  for (std::string_view column : columns) {
    if (out->columns_size() == static_cast<int>(kMaxColumns)) return;
    out->add_columns(Shown(column));
  }
}

}  // namespace

v1::FileDescription DescribeFile(const std::string& path,
                                 const std::string& name,
                                 std::optional<int64_t> label_column,
                                 const DescribeLimits& limits) {
  v1::FileDescription out;
  out.set_path(name);
  LineSource lines(path, limits);
  out.set_gzip(lines.gzip());
  out.set_format(Guess(name, lines.peek()));
  Tally tally(label_column, &out);
  int64_t rows = 0;
  std::string_view line;
  const bool has_rows =
      out.format() != Format::OTHER && out.format() != Format::SAFETENSORS;
  for (bool first = true; has_rows && lines.Next(&line); first = false) {
    if (first) ReadHeader(line, &out, &tally);
    if (first && out.format() == Format::TSV) continue;
    ++rows;
    switch (out.format()) {
      case Format::TSV:
        tally.AddTsv(line);
        break;
      case Format::JSONL:
        tally.AddJson(line);
        break;
      case Format::CRITEO: {
        const auto columns = SplitTabs(line);
        tally.CountOdd(columns.size());
        tally.AddLabel(columns);
        break;
      }
      default:
        tally.AddLength(CountWords(line));
    }
  }
  tally.Finish(rows);
  out.set_truncated(lines.truncated());
  out.set_problem(Shown(lines.problem()));
  return out;
}

}  // namespace comera::server
