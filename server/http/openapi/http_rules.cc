// Reads the rules that map HTTP requests to rpcs.
#include "server/http/openapi/http_rules.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "server/http/openapi/field_path.h"

namespace comera::server {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;

absl::Status Bad(std::string_view what, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("HTTP rule ", std::string(what), ": ", why));
}

absl::Status AddRule(const YAML::Node& node, const MethodDescriptor* method,
                     std::vector<HttpRule>* rules) {
  static constexpr const char* kVerbs[] = {"get", "put", "post", "delete",
                                           "patch"};
  HttpRule rule;
  rule.method = method;
  if (method->client_streaming()) {
    return Bad(method->full_name(), "a stream of requests");
  }
  for (const char* verb : kVerbs) {
    if (!node[verb]) continue;
    if (!rule.verb.empty()) return Bad(method->full_name(), "two paths");
    rule.verb = absl::AsciiStrToUpper(verb);
    rule.pattern = node[verb].as<std::string>();
  }
  if (rule.verb.empty()) return Bad(method->full_name(), "no path");
  if (node["body"]) rule.body = node["body"].as<std::string>();
  ASSIGN_OR_RETURN(rule.path, ParsePathTemplate(rule.pattern));
  for (const PathVariable& variable : rule.path.variables) {
    const auto field = FindField(method->input_type(), variable.field);
    if (!field.ok() ||
        (*field)->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
      return Bad(rule.pattern, variable.field + " is no string of the request");
    }
  }
  if (!rule.body.empty() && rule.body != "*") {
    const FieldDescriptor* field =
        method->input_type()->FindFieldByName(rule.body);
    if (field == nullptr || field->is_repeated() ||
        field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return Bad(rule.pattern, rule.body + " is no message of the request");
    }
  }
  rules->push_back(std::move(rule));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PathTemplate> ParsePathTemplate(std::string_view pattern) {
  PathTemplate result;
  std::string_view rest = pattern;
  const size_t colon = rest.find(':', rest.find_last_of("/}") + 1);
  if (colon != std::string_view::npos) {
    result.verb = std::string(rest.substr(colon + 1));
    rest = rest.substr(0, colon);
  }
  // The path with each variable's own template in its place.
  std::string flat;
  const auto segment = [&flat] {
    return static_cast<size_t>(std::count(flat.begin(), flat.end(), '/')) - 1;
  };
  while (!rest.empty()) {
    if (rest[0] != '{') {
      flat.push_back(rest[0]);
      rest.remove_prefix(1);
      continue;
    }
    const size_t end = rest.find('}');
    if (end == std::string_view::npos || flat.empty() || flat.back() != '/') {
      return Bad(pattern, "a variable is not a whole segment");
    }
    const std::string_view inside = rest.substr(1, end - 1);
    const size_t equals = inside.find('=');
    PathVariable variable;
    variable.field = std::string(inside.substr(0, equals));
    variable.first = segment();
    flat += equals == std::string_view::npos
                ? "*"
                : std::string(inside.substr(equals + 1));
    variable.last = segment();
    result.variables.push_back(std::move(variable));
    rest.remove_prefix(end + 1);
  }
  if (flat.empty() || flat[0] != '/') return Bad(pattern, "no / at its start");
  for (const absl::string_view one : absl::StrSplit(flat.substr(1), '/')) {
    if (one.empty() || (one != "*" && absl::StrContains(one, '*'))) {
      return Bad(pattern, "a segment is a word or *");
    }
    result.segments.emplace_back(one);
  }
  return result;
}

absl::StatusOr<std::vector<HttpRule>> ParseHttpRules(
    std::string_view yaml, const DescriptorPool* pool) {
  std::vector<HttpRule> rules;
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    for (const YAML::Node& node : root["http"]["rules"]) {
      const std::string selector = node["selector"].as<std::string>();
      const MethodDescriptor* method = pool->FindMethodByName(selector);
      if (method == nullptr) return Bad(selector, "no such rpc");
      RETURN_IF_ERROR(AddRule(node, method, &rules));
      for (const YAML::Node& more : node["additional_bindings"]) {
        RETURN_IF_ERROR(AddRule(more, method, &rules));
      }
    }
  } catch (const YAML::Exception& error) {
    return Bad("file", error.what());
  }
  return rules;
}

}  // namespace comera::server
