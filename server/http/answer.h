// How answers leave: headers that all of them have, compression, and
// conditions.
#ifndef COMERA_SERVER_HTTP_ANSWER_H_
#define COMERA_SERVER_HTTP_ANSWER_H_

#include <memory>
#include <string>

#include "common/http/http_exchange.h"
#include "common/http/http_message.h"
#include "server/http/static_files.h"

namespace comera::server {

// A body with what is computed of it, to be sent any number of times.
struct Body {
  std::string content_type;
  std::shared_ptr<const std::string> bytes;
  // Null: not smaller.
  std::shared_ptr<const std::string> gzip;
  // With its quotes.
  std::string etag;
};

// `compress`: whether to try.
std::shared_ptr<const Body> MakeBody(std::string content_type,
                                     std::string bytes, bool compress);

// Adds what every answer has. Without a Cache-Control nothing may keep it.
void SendAnswer(HttpExchange& exchange, HttpResponse response);

// With an ETag where the request is a GET, and as 304 without the body where
// the sender has it already.
void SendBody(HttpExchange& exchange, const Body& body);
void SendBody(HttpExchange& exchange, std::string content_type,
              std::string bytes);

// The file at the request's path, or NOT_FOUND.
void SendStaticFile(HttpExchange& exchange, const StaticFiles& files);

// Headers that every answer has.
void AddCommonHeaders(HttpHeaders* headers);

// Whether the sender takes it compressed.
bool AcceptsGzip(const HttpRequest& request);
// Whether If-None-Match holds the tag.
bool HasTag(const HttpRequest& request, const std::string& etag);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_ANSWER_H_
