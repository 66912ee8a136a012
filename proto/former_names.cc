// The table of renamed fields, and look-ups in it.

#include "proto/former_names.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace comera {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

struct Renamed {
  const char* message;
  const char* former;
  const char* former_camel_case;
  const char* current;
};

// "Rank" now means the size of a bond only, and "epoch" a pass over the data.
constexpr Renamed kRenamed[] = {
    {"comera.v1.ResourceSpec", "ranks", "ranks", "processes"},
    {"comera.v1.ResourceSpec", "min_ranks", "minRanks", "min_processes"},
    {"comera.v1.ResourceSpec", "threads_per_rank", "threadsPerRank",
     "threads_per_process"},
    {"comera.v1.Queue", "guaranteed_ranks", "guaranteedRanks",
     "guaranteed_processes"},
    {"comera.v1.Queue", "max_ranks", "maxRanks", "max_processes"},
    {"comera.v1.ReadLogRequest", "epoch", "epoch", "attempt"},
};

}  // namespace

const FieldDescriptor* FindByFormerName(const Descriptor& type,
                                        const std::string& name) {
  for (const Renamed& renamed : kRenamed) {
    if (name != renamed.former && name != renamed.former_camel_case) continue;
    if (type.full_name() != renamed.message) continue;
    return type.FindFieldByName(renamed.current);
  }
  return nullptr;
}

std::string CurrentPath(const Descriptor& type, const std::string& path) {
  const size_t dot = path.find('.');
  const std::string key = path.substr(0, dot);
  const FieldDescriptor* field = type.FindFieldByName(key);
  if (field == nullptr) field = FindByFormerName(type, key);
  if (field == nullptr) return path;
  if (dot == std::string::npos) return field->name();
  const std::string rest = path.substr(dot + 1);
  if (field->message_type() == nullptr || field->is_map()) {
    return absl::StrCat(field->name(), ".", rest);
  }
  return absl::StrCat(field->name(), ".",
                      CurrentPath(*field->message_type(), rest));
}

bool MayQuoteFormerNames(std::string_view text) {
  const auto quotes = [text](const char* name) {
    return text.find(absl::StrCat("\"", name, "\"")) != std::string_view::npos;
  };
  return std::any_of(
      std::begin(kRenamed), std::end(kRenamed), [&](const Renamed& renamed) {
        return quotes(renamed.former) || quotes(renamed.former_camel_case);
      });
}

std::string FormerNameNote(const std::string& path, const std::string& name) {
  const size_t dot = path.rfind('.');
  const std::string parent =
      dot == std::string::npos ? "" : path.substr(0, dot + 1);
  return absl::StrCat(path, " is now called ", parent, name,
                      "; the old name is still read");
}

}  // namespace comera
