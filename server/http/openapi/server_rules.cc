// Holds the server's own HTTP rules, which are part of the program.
#include "server/http/openapi/server_rules.h"

#include "comera/rpc/error_details.pb.h"
#include "comera/v1/access_service.pb.h"
#include "comera/v1/dataset_service.pb.h"
#include "comera/v1/model_service.pb.h"
#include "comera/v1/queue_service.pb.h"
#include "comera/v1/sweep_service.pb.h"
#include "comera/v1/training_service.pb.h"
#include "server/http/openapi/http_rules_yaml.h"

namespace comera::server {

absl::StatusOr<std::vector<HttpRule>> ServerRules() {
  // Descriptors are found by name only if their files are linked.
  google::rpc::Status::descriptor();
  v1::Token::descriptor();
  v1::Dataset::descriptor();
  v1::Model::descriptor();
  v1::Queue::descriptor();
  v1::Sweep::descriptor();
  v1::CreateJobRequest::descriptor();
  return ParseHttpRules(HttpRulesYaml(),
                        google::protobuf::DescriptorPool::generated_pool());
}

}  // namespace comera::server
