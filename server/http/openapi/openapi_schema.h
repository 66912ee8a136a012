// JSON schemas of the protos' messages, for the API's description.
#ifndef COMERA_SERVER_HTTP_OPENAPI_OPENAPI_SCHEMA_H_
#define COMERA_SERVER_HTTP_OPENAPI_OPENAPI_SCHEMA_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "nlohmann/json.hpp"

namespace comera::server {

// The comment before a declaration, in one line per paragraph.
template <typename Descriptor>
std::string CommentOf(const Descriptor& descriptor);

// Collects what the fields that it is asked for need.
class OpenApiSchemas {
 public:
  // The schema of the field as protobuf's JSON has it.
  nlohmann::ordered_json Of(const google::protobuf::FieldDescriptor& field);
  // {"$ref": ...}, or the type itself where JSON has another form for it.
  nlohmann::ordered_json Of(const google::protobuf::Descriptor& message);

  // All that was referred to, and what they refer to, by name.
  nlohmann::ordered_json Components();

 private:
  nlohmann::ordered_json Single(const google::protobuf::FieldDescriptor& field);
  nlohmann::ordered_json Describe(const google::protobuf::Descriptor& message);
  nlohmann::ordered_json Describe(const google::protobuf::EnumDescriptor& type);

  std::map<std::string, const google::protobuf::Descriptor*> messages_;
  std::map<std::string, const google::protobuf::EnumDescriptor*> enums_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_OPENAPI_OPENAPI_SCHEMA_H_
