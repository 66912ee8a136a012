// Splits and joins references to datasets, and checks their parts.

#include "proto/dataset_names.h"

#include <fnmatch.h>

#include <algorithm>

#include "proto/resource_names.h"

namespace comera {
namespace {

constexpr std::string_view kDatasets = "datasets/";
constexpr size_t kMaxPathBytes = 512;
constexpr int kMaxFolders = 32;
constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxVersionDigits = 9;

// The number in digits without a leading zero; 0 if malformed.
int64_t ParseVersion(std::string_view digits) {
  if (digits.empty() || digits.size() > kMaxVersionDigits || digits[0] == '0') {
    return 0;
  }
  int64_t version = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return 0;
    version = 10 * version + (c - '0');
  }
  return version;
}

}  // namespace

bool IsDatasetReference(std::string_view path) {
  return path.substr(0, kDatasets.size()) == kDatasets;
}

std::optional<DatasetReference> ParseDatasetReference(std::string_view text) {
  if (!IsDatasetReference(text)) return std::nullopt;
  text.remove_prefix(kDatasets.size());
  DatasetReference reference;
  const size_t slash = text.find('/');
  std::string_view head = text.substr(0, slash);
  if (slash != std::string_view::npos) {
    reference.path = std::string(text.substr(slash + 1));
    if (!IsDatasetPath(reference.path)) return std::nullopt;
  }
  const size_t at = head.find('@');
  if (at != std::string_view::npos) {
    reference.version = ParseVersion(head.substr(at + 1));
    if (reference.version == 0) return std::nullopt;
    head = head.substr(0, at);
  }
  if (!IsResourceId(head)) return std::nullopt;
  reference.dataset = std::string(head);
  return reference;
}

std::string DatasetPart(const DatasetReference& reference) {
  return reference.version == 0
             ? DatasetName(reference.dataset)
             : DatasetVersionName(reference.dataset, reference.version);
}

std::string DatasetName(std::string_view dataset) {
  return std::string(kDatasets).append(dataset);
}

std::string DatasetVersionName(std::string_view dataset, int64_t version) {
  return DatasetName(dataset).append("@").append(std::to_string(version));
}

bool IsDatasetPath(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes) return false;
  for (char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) return false;
  }
  int parts = 0;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." ||
        part.size() > kMaxNameBytes || ++parts > kMaxFolders + 1) {
      return false;
    }
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool IsFilePattern(std::string_view path) {
  return path.find_first_of("*?[") != std::string_view::npos;
}

bool MatchesFilePattern(std::string_view pattern, std::string_view path) {
  while (true) {
    const size_t pattern_end = pattern.find('/');
    const size_t path_end = path.find('/');
    const std::string wanted(pattern.substr(0, pattern_end));
    const std::string part(path.substr(0, path_end));
    if (wanted != part &&
        fnmatch(wanted.c_str(), part.c_str(), FNM_PERIOD) != 0) {
      return false;
    }
    const bool ends = path_end == std::string_view::npos;
    if (ends || pattern_end == std::string_view::npos) {
      return ends && pattern_end == std::string_view::npos;
    }
    pattern.remove_prefix(pattern_end + 1);
    path.remove_prefix(path_end + 1);
  }
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace comera
