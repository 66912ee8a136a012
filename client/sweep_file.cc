// Reads sweep files and rewrites their shorthand to the fields of SweepSpec.

#include "client/sweep_file.h"

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/job_file.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/field_reader.h"
#include "proto/former_names.h"
#include "proto/sweep/search_job.h"
#include "proto/yaml_tree.h"

namespace comera::client {
namespace {

using Kind = YamlNode::Kind;

constexpr char kSection[] = "sweep";
constexpr size_t kMaxBytes = 1 << 20;

YamlNode Scalar(std::string text, int line) {
  YamlNode node;
  node.kind = Kind::kScalar;
  node.line = line;
  node.text = std::move(text);
  return node;
}

// Turns a value of an axis into its text: lists become [8, 16].
absl::StatusOr<YamlNodePtr> AsText(const YamlNodePtr& node,
                                   const std::string& name) {
  if (node->kind == Kind::kScalar) return node;
  std::vector<std::string> parts;
  for (const YamlNodePtr& item : node->items) {
    if (item->kind == Kind::kScalar) parts.push_back(item->text);
  }
  if (node->kind != Kind::kSequence || parts.size() != node->items.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", node->line,
                     ": sweep: a value of a field is a single value or a list "
                     "of single values"));
  }
  return std::make_shared<YamlNode>(
      Scalar(absl::StrCat("[", absl::StrJoin(parts, ", "), "]"), node->line));
}

// Turns {path: value or values} into [{path, value} or {path, values}].
absl::StatusOr<YamlNodePtr> FieldsAsList(const YamlNode& fields, bool axis,
                                         const std::string& name) {
  YamlNode list;
  list.kind = Kind::kSequence;
  list.line = fields.line;
  for (const YamlEntry& entry : fields.entries) {
    YamlNode item;
    item.kind = Kind::kMap;
    item.line = entry.line;
    item.entries.push_back(
        {"path", entry.line,
         std::make_shared<YamlNode>(Scalar(entry.key, entry.line))});
    YamlNodePtr value;
    if (!axis) {
      ASSIGN_OR_RETURN(value, AsText(entry.value, name));
    } else if (entry.value->kind == Kind::kSequence) {
      YamlNode values = *entry.value;
      for (YamlNodePtr& one : values.items) {
        ASSIGN_OR_RETURN(one, AsText(one, name));
      }
      value = std::make_shared<YamlNode>(std::move(values));
    } else {
      value = entry.value;
    }
    item.entries.push_back(
        {axis ? "values" : "value", entry.line, std::move(value)});
    list.items.push_back(std::make_shared<YamlNode>(std::move(item)));
  }
  return std::make_shared<YamlNode>(std::move(list));
}

// Turns {path: values or {min, max, log}} into [{path, ...}].
absl::StatusOr<YamlNodePtr> RangesAsList(const YamlNode& fields,
                                         const std::string& name) {
  YamlNode list;
  list.kind = Kind::kSequence;
  list.line = fields.line;
  for (const YamlEntry& entry : fields.entries) {
    YamlNode item;
    item.kind = Kind::kMap;
    item.line = entry.line;
    item.entries.push_back(
        {"path", entry.line,
         std::make_shared<YamlNode>(Scalar(entry.key, entry.line))});
    if (entry.value->kind == Kind::kMap) {
      item.entries.insert(item.entries.end(), entry.value->entries.begin(),
                          entry.value->entries.end());
    } else {
      YamlNode values = *entry.value;
      for (YamlNodePtr& one : values.items) {
        ASSIGN_OR_RETURN(one, AsText(one, name));
      }
      item.entries.push_back({"values", entry.line,
                              std::make_shared<YamlNode>(std::move(values))});
    }
    list.items.push_back(std::make_shared<YamlNode>(std::move(item)));
  }
  return std::make_shared<YamlNode>(std::move(list));
}

// Returns `node` with its `fields`, ranges by path, in the form of SweepSpec.
absl::StatusOr<YamlNodePtr> WithRangesAsList(const YamlNodePtr& node,
                                             const std::string& name) {
  if (node->kind != Kind::kMap) return node;
  YamlNode copy = *node;
  for (YamlEntry& entry : copy.entries) {
    if (entry.key != "fields" || entry.value->kind != Kind::kMap) continue;
    ASSIGN_OR_RETURN(entry.value, RangesAsList(*entry.value, name));
  }
  return std::make_shared<YamlNode>(std::move(copy));
}

// Returns `node` with its `fields` in the form of SweepSpec.
absl::StatusOr<YamlNodePtr> WithFieldsAsList(const YamlNodePtr& node, bool axis,
                                             const std::string& name) {
  if (node->kind != Kind::kMap) return node;
  YamlNode copy = *node;
  for (YamlEntry& entry : copy.entries) {
    if (entry.key != "fields" || entry.value->kind != Kind::kMap) continue;
    ASSIGN_OR_RETURN(entry.value, FieldsAsList(*entry.value, axis, name));
  }
  return std::make_shared<YamlNode>(std::move(copy));
}

absl::StatusOr<YamlNodePtr> Section(const YamlNodePtr& node,
                                    const std::string& name) {
  if (node->kind != Kind::kMap) return node;
  YamlNode copy = *node;
  for (YamlEntry& entry : copy.entries) {
    if (entry.key == "job") {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ":", entry.line, ": sweep.job: the job stands beside `sweep`"));
    }
    if (entry.key == "grid") {
      ASSIGN_OR_RETURN(entry.value, WithFieldsAsList(entry.value, true, name));
    }
    if (entry.key == "random") {
      ASSIGN_OR_RETURN(entry.value, WithRangesAsList(entry.value, name));
    }
    if (entry.key == "list" && entry.value->kind == Kind::kSequence) {
      YamlNode list = *entry.value;
      for (YamlNodePtr& item : list.items) {
        ASSIGN_OR_RETURN(item, WithFieldsAsList(item, false, name));
      }
      entry.value = std::make_shared<YamlNode>(std::move(list));
    }
  }
  return std::make_shared<YamlNode>(std::move(copy));
}

// Gives the field that an axis or a run sets its current name.
void RenameField(const std::string& name, std::string* path,
                 std::vector<std::string>* notes) {
  const std::string current = CurrentPath(*v1::JobSpec::descriptor(), *path);
  if (current == *path) return;
  if (notes != nullptr) {
    const std::string last = current.substr(current.rfind('.') + 1);
    notes->push_back(
        absl::StrCat(name, ": sweep: ", FormerNameNote(*path, last)));
  }
  *path = current;
}

}  // namespace

absl::StatusOr<v1::SweepSpec> ParseSweepFile(const std::string& contents,
                                             const std::string& name,
                                             std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(const YamlNodePtr root, ParseYaml(contents, name));
  v1::SweepSpec spec;
  YamlNode job = *root;
  bool found = false;
  for (size_t i = 0; i < job.entries.size(); ++i) {
    if (job.entries[i].key != kSection) continue;
    found = true;
    ASSIGN_OR_RETURN(const YamlNodePtr section,
                     Section(job.entries[i].value, name));
    RETURN_IF_ERROR(ReadMessage(*section, name + " (sweep)", &spec, notes));
    if (spec.has_grid()) {
      for (v1::FieldValues& axis : *spec.mutable_grid()->mutable_fields()) {
        RenameField(name, axis.mutable_path(), notes);
      }
    }
    if (spec.has_random()) {
      for (v1::FieldRange& range : *spec.mutable_random()->mutable_fields()) {
        RenameField(name, range.mutable_path(), notes);
      }
    }
    for (v1::SweepPoint& point : *spec.mutable_list()) {
      for (v1::FieldValue& field : *point.mutable_fields()) {
        RenameField(name, field.mutable_path(), notes);
      }
    }
    job.entries.erase(job.entries.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  RETURN_IF_ERROR(ReadMessage(job, name, spec.mutable_job(), notes));
  // A search needs no section: the service chooses its runs.
  if (!found && !IsSearch(spec.job())) {
    return absl::InvalidArgumentError(absl::StrCat(
        name,
        ":1: sweep: missing; a sweep file is a job file with a `sweep` "
        "section (a single job: comera submit)"));
  }
  return spec;
}

absl::StatusOr<v1::SweepSpec> ReadSweepFile(const std::string& path,
                                            std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(const JobFileFormat format, FormatOf(path));
  if (format == JobFileFormat::kTextproto) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a sweep file ends in .yaml, .yml or .json"));
  }
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":1: larger than ", kMaxBytes, " bytes"));
  }
  ASSIGN_OR_RETURN(const std::string contents, ReadFile(path));
  ASSIGN_OR_RETURN(v1::SweepSpec spec, ParseSweepFile(contents, path, notes));
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
  }
  ResolveDataPaths(absolute.parent_path().string(), spec.mutable_job());
  return spec;
}

}  // namespace comera::client
