// Writes the OpenAPI description of the HTTP API.
#include "server/http/openapi/openapi.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/http/openapi/openapi_schema.h"

namespace comera::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;
using Json = nlohmann::ordered_json;

constexpr char kAbout[] =
    "Training jobs with targets for loss and size, over HTTP. Generated from "
    "the protos and http_rules.yaml; docs/http.md has the rest.";

Json Content(const std::string& type, Json schema) {
  return {{type, {{"schema", std::move(schema)}}}};
}

Json Answer(const std::string& text, Json content) {
  return {{"description", text}, {"content", std::move(content)}};
}

Json ErrorAnswer() { return {{"$ref", "#/components/responses/Error"}}; }

// "jobs" of {job}.
std::string Singular(const std::string& segment) {
  return segment.size() > 1 && segment.back() == 's'
             ? segment.substr(0, segment.size() - 1)
             : segment;
}

Json PathParameters(const PathTemplate& path) {
  Json parameters = Json::array();
  for (size_t i = 1; i < path.segments.size(); ++i) {
    if (path.segments[i] != "*") continue;
    parameters.push_back({{"name", Singular(path.segments[i - 1])},
                          {"in", "path"},
                          {"required", true},
                          {"schema", {{"type", "string"}}}});
  }
  return parameters;
}

bool IsInPath(const PathTemplate& path, const std::string& field) {
  return std::any_of(path.variables.begin(), path.variables.end(),
                     [&field](const PathVariable& variable) {
                       return variable.field == field;
                     });
}

class Builder {
 public:
  explicit Builder(const std::vector<HttpRule>& rules) : rules_(rules) {}

  Json Build(const std::string& version) {
    Json paths = Json::object();
    for (const HttpRule& rule : rules_) {
      paths[OpenApiPath(rule.path)][absl::AsciiStrToLower(rule.verb)] =
          Operation(rule);
    }
    AddOthers(&paths);
    Json out = {
        {"openapi", "3.1.0"},
        {"info",
         {{"title", "comera"}, {"version", version}, {"description", kAbout}}},
        {"security",
         {{{"bearer", Json::array()}}, {{"session", Json::array()}}}},
        {"tags", Tags()},
        {"paths", std::move(paths)}};
    out["components"] = {{"securitySchemes",
                          {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
                           {"session",
                            {{"type", "apiKey"},
                             {"in", "cookie"},
                             {"name", "comera_session"}}}}},
                         {"responses", {{"Error", Error()}}},
                         {"schemas", schemas_.Components()}};
    return out;
  }

 private:
  Json Operation(const HttpRule& rule) {
    const MethodDescriptor& method = *rule.method;
    const std::string comment = CommentOf(method);
    Json operation = {{"operationId", absl::StrCat(method.service()->name(),
                                                   "_", method.name())},
                      {"tags", {method.service()->name()}}};
    if (!comment.empty()) {
      operation["summary"] = comment.substr(0, comment.find(". ") + 1);
      if (comment.find(". ") == std::string::npos) {
        operation["summary"] = comment;
      }
      operation["description"] = comment;
    }
    Json parameters = PathParameters(rule.path);
    if (rule.body != "*") AddQuery(rule, &parameters);
    if (!parameters.empty()) operation["parameters"] = std::move(parameters);
    AddBody(rule, &operation);
    operation["responses"] = {{"200", Success(method)},
                              {"default", ErrorAnswer()}};
    return operation;
  }

  void AddQuery(const HttpRule& rule, Json* parameters) {
    const Descriptor& request = *rule.method->input_type();
    for (int i = 0; i < request.field_count(); ++i) {
      const FieldDescriptor& field = *request.field(i);
      if (IsInPath(rule.path, field.name()) || field.name() == rule.body) {
        continue;
      }
      Json parameter = {{"name", field.json_name()},
                        {"in", "query"},
                        {"schema", schemas_.Of(field)}};
      if (field.is_map()) parameter["style"] = "deepObject";
      if (field.is_repeated()) parameter["explode"] = true;
      const std::string comment = CommentOf(field);
      if (!comment.empty()) parameter["description"] = comment;
      parameters->push_back(std::move(parameter));
    }
  }

  void AddBody(const HttpRule& rule, Json* operation) {
    if (rule.body.empty()) return;
    const Descriptor& request = *rule.method->input_type();
    Json schema = rule.body == "*"
                      ? schemas_.Of(request)
                      : schemas_.Of(*request.FindFieldByName(rule.body));
    (*operation)["requestBody"] = {
        {"required", rule.body != "*"},
        {"content", Content("application/json", std::move(schema))}};
  }

  Json Success(const MethodDescriptor& method) {
    if (!method.server_streaming()) {
      return Answer("The answer.", Content("application/json",
                                           schemas_.Of(*method.output_type())));
    }
    if (method.name() == "DownloadArtifact") {
      return Answer("The file, or the range of it that was asked for.",
                    Content("application/octet-stream",
                            {{"type", "string"}, {"format", "binary"}}));
    }
    Json content =
        Content("text/event-stream", schemas_.Of(*method.output_type()));
    if (method.name() == "ReadLog") {
      content["text/plain"] = {{"schema", {{"type", "string"}}}};
    }
    return Answer("Server-sent events; see docs/http.md.", std::move(content));
  }

  Json Tags() const {
    Json tags = Json::array();
    const google::protobuf::ServiceDescriptor* last = nullptr;
    for (const HttpRule& rule : rules_) {
      const auto* service = rule.method->service();
      if (service == last) continue;
      last = service;
      Json tag = {{"name", service->name()}};
      const std::string comment = CommentOf(*service);
      if (!comment.empty()) tag["description"] = comment;
      tags.push_back(std::move(tag));
    }
    return tags;
  }

  // Paths without an rpc.
  static void AddOthers(Json* paths) {
    const Json text = Content("text/plain", {{"type", "string"}});
    const Json object = Content("application/json", {{"type", "object"}});
    const auto get = [paths](const char* path, const char* id,
                             const char* summary, const Json& content) {
      (*paths)[path]["get"] = {{"operationId", id},
                               {"summary", summary},
                               {"responses",
                                {{"200", Answer("The answer.", content)},
                                 {"default", ErrorAnswer()}}}};
    };
    get("/healthz", "healthz", "Whether the process lives.", text);
    get("/readyz", "readyz", "Whether it serves: leader or follower.", text);
    get("/metrics", "metrics", "Metrics for Prometheus.", text);
    get("/openapi.json", "openapi", "This description.", object);
    const auto with_body = [&object](const char* id, const char* summary,
                                     const Json& properties,
                                     const char* required) {
      return Json{{"operationId", id},
                  {"summary", summary},
                  {"requestBody",
                   {{"required", true},
                    {"content",
                     Content("application/json", {{"type", "object"},
                                                  {"properties", properties},
                                                  {"required", {required}}})}}},
                  {"responses",
                   {{"200", Answer("The answer.", object)},
                    {"default", ErrorAnswer()}}}};
    };
    const Json string = {{"type", "string"}};
    (*paths)["/v1/jobs:parse"]["post"] =
        with_body("parseJob", "Reads the text of a job file.",
                  {{"text", string}, {"fileName", string}}, "text");
    (*paths)["/v1/session"]["post"] = with_body(
        "signIn", "Sets a browser's cookie.", {{"token", string}}, "token");
    (*paths)["/v1/session"]["delete"] = {
        {"operationId", "signOut"},
        {"summary", "Removes a browser's cookie."},
        {"responses",
         {{"204", {{"description", "Done."}}}, {"default", ErrorAnswer()}}}};
    AddSignOnPaths(paths);
  }

  // Adds the paths of server/http/sign_in_pages.h.
  static void AddSignOnPaths(Json* paths) {
    const Json string = {{"type", "string"}};
    (*paths)["/v1/sso"]["get"] = {
        {"operationId", "getIssuer"},
        {"summary", "Names the issuer at which browsers sign in."},
        {"responses",
         {{"200", Answer("The answer.",
                         Content("application/json",
                                 {{"type", "object"},
                                  {"properties", {{"issuer", string}}}}))},
          {"default", ErrorAnswer()}}}};
    const auto redirect = [&string](const char* id, const char* summary,
                                    const char* parameter) {
      return Json{
          {"operationId", id},
          {"summary", summary},
          {"parameters",
           Json::array(
               {{{"name", parameter}, {"in", "query"}, {"schema", string}}})},
          {"responses",
           {{"303", {{"description", "A redirect."}}},
            {"default", ErrorAnswer()}}}};
    };
    (*paths)["/v1/sso/login"]["get"] =
        redirect("signInAtIssuer", "Sends a browser to the issuer.", "return");
    (*paths)["/v1/sso/callback"]["get"] = redirect(
        "signedInAtIssuer", "Takes a browser back from the issuer.", "code");
  }

  static Json Error() {
    const Json string = {{"type", "string"}};
    return Answer("google.rpc.Status as AIP-193 has it.",
                  Content("application/json",
                          {{"type", "object"},
                           {"properties",
                            {{"error",
                              {{"type", "object"},
                               {"properties",
                                {{"code", {{"type", "integer"}}},
                                 {"status", string},
                                 {"message", string},
                                 {"details",
                                  {{"type", "array"},
                                   {"items", {{"type", "object"}}}}}}}}}}}}));
  }

  const std::vector<HttpRule>& rules_;
  OpenApiSchemas schemas_;
};

}  // namespace

std::string OpenApiPath(const PathTemplate& path) {
  std::string out;
  for (size_t i = 0; i < path.segments.size(); ++i) {
    absl::StrAppend(&out, "/",
                    path.segments[i] == "*" && i > 0
                        ? absl::StrCat("{", Singular(path.segments[i - 1]), "}")
                        : path.segments[i]);
  }
  if (!path.verb.empty()) absl::StrAppend(&out, ":", path.verb);
  return out;
}

Json DescribeApi(const std::vector<HttpRule>& rules,
                 const std::string& version) {
  return Builder(rules).Build(version);
}

}  // namespace comera::server
