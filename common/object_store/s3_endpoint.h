#ifndef COMERA_COMMON_OBJECT_STORE_S3_ENDPOINT_H_
#define COMERA_COMMON_OBJECT_STORE_S3_ENDPOINT_H_

#include <string>

#include "absl/status/statusor.h"

namespace comera {

// Where the objects of an S3 service lie. Immutable.
class S3Endpoint {
 public:
  // `endpoint` is http[s]://host[:port] of a service that is not AWS, or empty
  // for AWS. InvalidArgument: endpoint or region are malformed.
  static absl::StatusOr<S3Endpoint> Create(const std::string& endpoint,
                                           const std::string& region);

  // The URL of an object; `path` is its percent-encoded key, beginning with
  // "/". AWS has the bucket in the host, as far as certificates allow; others
  // have it in the path.
  std::string Url(const std::string& bucket, const std::string& path) const;

  const std::string& region() const { return region_; }
  // Whether the operator has configured a service without TLS.
  bool plain_http() const { return plain_http_; }

 private:
  S3Endpoint() = default;

  std::string endpoint_;
  std::string region_;
  bool plain_http_ = false;
};

}  // namespace comera

#endif  // COMERA_COMMON_OBJECT_STORE_S3_ENDPOINT_H_
