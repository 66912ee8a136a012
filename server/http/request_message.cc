// Builds an rpc's request from a path, a query and a body.
#include "server/http/request_message.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/http/json_text.h"
#include "server/http/request_fields.h"

namespace comera::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;

constexpr size_t kMaxParameters = 1000;

absl::Status SetBody(const std::string& where, std::string_view body,
                     Message* message) {
  if (where.empty()) {
    if (body.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("this call takes no body");
  }
  if (where == "*") {
    return body.empty() ? absl::OkStatus() : JsonToMessage(body, message);
  }
  const FieldDescriptor* field =
      message->GetDescriptor()->FindFieldByName(where);
  if (body.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the body is missing: ", where, " as JSON"));
  }
  return JsonToMessage(
      body, message->GetReflection()->MutableMessage(message, field));
}

// "labels[team]", as OpenAPI has maps, is "labels.team".
std::string WithDots(const std::string& name) {
  const size_t bracket = name.find('[');
  if (bracket == std::string::npos || name.back() != ']') return name;
  return absl::StrCat(name.substr(0, bracket), ".",
                      name.substr(bracket + 1, name.size() - bracket - 2));
}

}  // namespace

absl::StatusOr<QueryParameters> ParseQuery(std::string_view query) {
  QueryParameters parameters;
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view one = query.substr(0, end);
    query = end == std::string_view::npos ? "" : query.substr(end + 1);
    if (one.empty()) continue;
    if (parameters.size() == kMaxParameters) {
      return absl::InvalidArgumentError("too many parameters");
    }
    const size_t equals = one.find('=');
    auto& [name, value] = parameters.emplace_back();
    if (!PercentDecode(one.substr(0, equals), true, &name) ||
        (equals != std::string_view::npos &&
         !PercentDecode(one.substr(equals + 1), true, &value))) {
      return absl::InvalidArgumentError(
          "the query has a % without two hexadecimal digits");
    }
  }
  return parameters;
}

absl::StatusOr<std::unique_ptr<Message>> MakeRequestMessage(
    const Router::Match& match, const QueryParameters& query,
    std::string_view body) {
  const HttpRule& rule = *match.rule;
  std::unique_ptr<Message> message(MessageFactory::generated_factory()
                                       ->GetPrototype(rule.method->input_type())
                                       ->New());
  RETURN_IF_ERROR(SetBody(rule.body, body, message.get()));
  for (const auto& [name, value] : query) {
    if (rule.body == "*") {
      return absl::InvalidArgumentError(absl::StrCat(
          name.substr(0, 100), ": this call takes its fields from the body"));
    }
    RETURN_IF_ERROR(SetField(WithDots(name), value, message.get()));
  }
  // Last: the path decides.
  for (const auto& [field, value] : match.bindings) {
    RETURN_IF_ERROR(SetField(field, value, message.get()));
  }
  return message;
}

}  // namespace comera::server
