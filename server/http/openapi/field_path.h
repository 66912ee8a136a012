// Fields of messages by their names in protos and in JSON.
#ifndef COMERA_SERVER_HTTP_OPENAPI_FIELD_PATH_H_
#define COMERA_SERVER_HTTP_OPENAPI_FIELD_PATH_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"

namespace comera::server {

// The field called `name` in the proto, in JSON or in an earlier release; null
// if there is none.
const google::protobuf::FieldDescriptor* FindFieldByAnyName(
    const google::protobuf::Descriptor* descriptor, std::string_view name);

// The field that the dotted path leads to; names as in the proto or in JSON.
// InvalidArgument "PATH: ...".
absl::StatusOr<const google::protobuf::FieldDescriptor*> FindField(
    const google::protobuf::Descriptor* descriptor, std::string_view path);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_OPENAPI_FIELD_PATH_H_
