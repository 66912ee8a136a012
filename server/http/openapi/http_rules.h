#ifndef COMERA_SERVER_HTTP_OPENAPI_HTTP_RULES_H_
#define COMERA_SERVER_HTTP_OPENAPI_HTTP_RULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"

namespace comera::server {

// A part of a path template: a variable takes segments first to last of the
// path, joined by "/".
struct PathVariable {
  // Dotted path of the request's field.
  std::string field;
  size_t first = 0;
  size_t last = 0;
};

// A path template of google.api.http: /v1/{name=jobs/*}:cancel.
struct PathTemplate {
  // "*" stands for any one segment.
  std::vector<std::string> segments;
  std::vector<PathVariable> variables;
  // "cancel"; empty: none.
  std::string verb;
};

// How an rpc is called over HTTP.
struct HttpRule {
  const google::protobuf::MethodDescriptor* method = nullptr;
  // "GET".
  std::string verb;
  // The pattern as it is written in the rules.
  std::string pattern;
  PathTemplate path;
  // "*": the body is the request, but for what the path holds; a field's name:
  // it is that field; empty: there is none.
  std::string body;
};

// InvalidArgument.
absl::StatusOr<PathTemplate> ParsePathTemplate(std::string_view pattern);

// The rules of a service configuration (google.api.Service, YAML), their
// methods in `pool`; additional bindings are rules of their own. Errors of a
// file that is part of the program: InvalidArgument says which rule is wrong.
absl::StatusOr<std::vector<HttpRule>> ParseHttpRules(
    std::string_view yaml, const google::protobuf::DescriptorPool* pool);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_OPENAPI_HTTP_RULES_H_
